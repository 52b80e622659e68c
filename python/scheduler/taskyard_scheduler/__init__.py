"""The Taskyard scheduler: triggers, dispatch, retries, leader election."""
