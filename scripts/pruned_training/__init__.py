"""Networks and data of `prune_and_train.py`, and the plot of its accuracies."""
