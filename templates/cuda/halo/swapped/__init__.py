"""Convolutions on wgmma with weights as its first operand and pixels as its second."""
