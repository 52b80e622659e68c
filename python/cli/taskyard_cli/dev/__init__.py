"""`taskyard dev`: a scheduler and workers on this machine, started and stopped by one command."""
