"""The operations of the model folded and moved, so that more of them fuse behind it."""
