"""Compute the data of figures, and draw them."""
