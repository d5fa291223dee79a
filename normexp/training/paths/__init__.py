"""Training steps as lists of calls on fixed buffers, derived from the network's modules."""
