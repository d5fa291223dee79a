"""The networks as torch modules: norms, branches, blocks, initial weights, 16-bit precision."""
