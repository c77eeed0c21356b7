"""Recording of spaces: many configurations of a workload measured once, for search and learning."""
