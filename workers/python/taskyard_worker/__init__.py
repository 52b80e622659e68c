"""The Python worker of Taskyard."""
