"""What is asked: YAML and overrides to a plan, counted without being built."""
