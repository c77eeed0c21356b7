"""Workloads that templates for several targets are tested on."""
