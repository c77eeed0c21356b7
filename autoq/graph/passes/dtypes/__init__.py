"""What integers activations are: signed or unsigned, one or two of them a byte."""
