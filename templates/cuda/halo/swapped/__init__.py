"""The halo convolutions with weights as wgmma's first operand and pixels as its second."""
