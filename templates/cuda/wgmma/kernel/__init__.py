"""What a kernel of the wgmma pipeline consists of: its start, loads, producer, products and end."""
