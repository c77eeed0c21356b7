"""Products with 2:4 sparse weights on mma.sp, the sparse products of a warp."""
