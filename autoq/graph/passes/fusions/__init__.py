"""What no template computes becomes fusions: regions of the graph, written as primitives."""
