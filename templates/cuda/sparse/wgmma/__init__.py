"""Vector-sparse products by wgmma, of vectors of 16 to 128 rows."""
