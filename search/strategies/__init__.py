"""Search strategies, a file each, and the parts that several of them share."""
