"""Vector-sparse products by wgmma over boxes of all rows of b, of which each vector row reads some."""
