"""What a sweep looks like: what a figure shows, as numbers, and apart from that how it is drawn."""

from normexp.home import spare_from_matplotlib

spare_from_matplotlib()
