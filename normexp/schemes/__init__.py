"""Torch-free tables: where norms stand in a block, which norms there are, and how known models are built."""
