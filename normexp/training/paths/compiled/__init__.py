"""A training step as a table of compiled kernels: the C++ sources, their build, and the rows of each module."""
