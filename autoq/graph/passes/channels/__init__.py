"""Where the channels of tensors lie between convolutions: padding, shuffles, and the first ones."""
