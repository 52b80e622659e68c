"""`taskyard demo`: a real workflow on real processes, with a failure and a killed worker on the way."""
