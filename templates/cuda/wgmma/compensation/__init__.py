"""Products of integers whose tiles are corrected by lists before they are stored."""
