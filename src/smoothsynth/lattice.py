"""The lattice of whole numbers on which rows are measured."""

# S: a coordinate in [-1, 1] is rounded once to a whole multiple of 1/S.
LATTICE = 2**16
