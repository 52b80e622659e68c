"""Workflow files and what is done with workflows: read, checked, compared, stored, written, deleted."""
