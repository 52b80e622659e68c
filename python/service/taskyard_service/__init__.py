"""What every Taskyard server process shares: settings, logs, metrics, auth, lifecycle, gateway."""
