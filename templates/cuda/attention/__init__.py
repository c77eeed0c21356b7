"""Attention in one kernel: scores, softmax and values, without a matrix of scores in memory."""
