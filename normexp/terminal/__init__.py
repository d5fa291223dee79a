"""Terminal output: live views and tables."""
