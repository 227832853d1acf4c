"""What is measured: bases of functions, how much one person changes their sums, and the integers of a measurement."""
