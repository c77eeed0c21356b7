"""How a kernel is launched: its blocks, their order, registers and place in a queue."""
