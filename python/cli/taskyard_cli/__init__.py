"""The taskyard command."""
