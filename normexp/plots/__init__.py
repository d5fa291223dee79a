"""Compute the data of figures, and draw them."""

from normexp.execution.machine import redirect_matplotlib

redirect_matplotlib()
