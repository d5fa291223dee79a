"""Training of one network: the step, the loop, and the measurements during training."""
