"""Compilation of a model: a kernel for each node, the layouts of activations, and the artifact."""
