"""Starting, watching and ending runs: one module per executor."""
