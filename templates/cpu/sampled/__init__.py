"""Sampled products of dense matrices on a CPU."""
