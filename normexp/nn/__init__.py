"""The networks: norms, branches, blocks, initial weights."""
