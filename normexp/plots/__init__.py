"""Compute the data of figures, and draw them."""

from normexp.execution.home import redirect_matplotlib

redirect_matplotlib()
