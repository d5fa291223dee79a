"""A training step as a list of calls on fixed buffers, derived from the network's modules."""
