"""Fuzzing: a module for each subject, cases drawn from a seed, and `fuzz.run`, which runs them.

A subject is a module with `case(rng, folder)`: it builds one case from `rng`, exercises autoq on it
inside the empty `folder`, returns when autoq behaved (the right result, or one AutoqError line)
and raises AssertionError with a message otherwise. Every other exception that escapes is a finding
too, and so are a death of the process and a case longer than the module's LIMIT_SECONDS (60 without
one). MEMORY_BYTES, 4 GiB without one, bounds what the process may allocate.
"""
