"""Processes: children that answer requests, what ends them, and what they may import."""
