"""What records teach about workloads that were never measured: a model, and choices by it."""
