"""Workflows that other systems have recorded or described become workflows of ours; a module for each format."""
