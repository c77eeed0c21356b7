"""What a kernel of the wgmma pipeline consists of: its start, producer, products and end."""
