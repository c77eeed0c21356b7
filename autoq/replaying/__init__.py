"""Replays of recorded spaces: strategies compared without a device."""
