"""Post-processing of noisy moments: candidates, weights and rows; nothing here can reach private rows."""
