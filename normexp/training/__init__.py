"""Training: tasks, one step, and everything that is measured on the way."""
