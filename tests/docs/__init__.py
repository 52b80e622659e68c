"""Tests that hold the documentation to what the program does."""
