"""Taskyard's decisions as pure functions: no I/O, no clock, no randomness."""
