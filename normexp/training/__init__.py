"""Training of one network: the step, the loop, and everything that is measured on the way."""
