"""The Taskyard scheduler: triggers, dispatch, retries, leader election."""

__version__ = "0.1.0"
