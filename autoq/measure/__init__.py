"""Measurement: candidates compiled in parallel processes, checked and timed in one of their own."""
