"""The Python client of Taskyard, async and sync."""
