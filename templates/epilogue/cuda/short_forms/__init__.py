"""Forms of requantisation with fewer instructions: the numbers they read, and proofs for them."""
