"""Tuning records that ship with autoq: one folder a GPU, JSON lines inside."""
