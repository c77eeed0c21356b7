"""Tuning: tasks, how trials are shared out among them, and the loop that measures."""
