"""The only readers and writers of results/."""
