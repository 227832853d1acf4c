"""Weights of candidate points that agree with noisy moments: maximum entropy and least absolute error."""
