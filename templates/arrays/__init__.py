"""Arrays: their element types, how they lie in memory, and axes that broadcast or permute."""
