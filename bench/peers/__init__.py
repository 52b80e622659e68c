"""The peers that Taskyard is measured beside, in an environment and on a Redis of their own."""
