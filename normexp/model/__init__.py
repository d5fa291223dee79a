"""The networks as torch modules: norms, branches, blocks, initialization and 16-bit precision."""
