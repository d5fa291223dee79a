"""Figures: what each one shows as numbers, and how it is drawn."""
