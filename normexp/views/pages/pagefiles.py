"""What every web page of normexp has inside: its style, and the script that sorts, filters and draws curves."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def style() -> str:
    """The text of page.css."""
    return resources.files(__package__).joinpath("page.css").read_text("utf-8")


@functools.cache
def script() -> str:
    """The text of page.js."""
    return resources.files(__package__).joinpath("page.js").read_text("utf-8")
