"""Networks in torch with random weights: to export, and to time beside autoq."""
