"""What a sweep looks like: what a figure shows, as numbers, and apart from that how it is drawn."""

from normexp.home import redirect_matplotlib

redirect_matplotlib()
