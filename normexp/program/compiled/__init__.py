"""A training step as a table of compiled kernels: the C++ sources, how they are built, and which module has which row."""
