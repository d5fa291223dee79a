"""Figures: what each one shows as numbers, and how it is drawn."""

from normexp.execution.home import redirect_matplotlib

redirect_matplotlib()
