"""Benchmarks: each starts the servers it needs, measures what performance.md names, prints one JSON object."""
