"""The text of what is printed to a terminal or a pipe."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from normexp.terminal.console import output


def printed(
    content: RenderableType, *, width: int | None = None, encoding: str = "utf-8", soft_wrap: bool = False
) -> str:
    """Return the text for a terminal of this width, or without one for a pipe."""
    buffer = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    terminal = Console(file=buffer, width=width, force_terminal=True, color_system=None, markup=False)
    (output(buffer) if width is None else terminal).print(content, soft_wrap=soft_wrap)
    buffer.seek(0)
    return buffer.read()
