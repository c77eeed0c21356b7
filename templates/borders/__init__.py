"""Borders of padded images: which taps of a filter meet the image, and what bias that makes."""
