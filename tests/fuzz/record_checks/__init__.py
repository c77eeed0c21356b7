"""Record files, and what reads and repairs them, for `fuzz.records`."""
