"""What a conversion came to: a verdict, and a table of losses and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from normexp.labels import loss_text
from normexp.views.pivot import TextTable

if TYPE_CHECKING:
    from normexp.training.convert import Conversion, Measured

EXACT = "Exact: the logits are those of before, up to rounding."


def verdict(made: Conversion) -> str:
    """`Exact: ...` or `Approximate: why`, and what stayed as it was."""
    words = f"Approximate: {'; '.join(made.reasons)}." if made.reasons else EXACT
    return f"{words} {made.remark[:1].upper()}{made.remark[1:]}." if made.remark else words


def table(made: Conversion) -> TextTable:
    """A row for each set of weights: those before, each way of converting, and after calibration."""
    return TextTable(
        title=f"Norm {made.config.norm}, final norm {made.config.final_norm}: {made.method}",
        header=("weights", "val loss", "max error", "rms error / std", f"max, {made.config.dtype}"),
        rows=tuple(_row(row, made.std) for row in made.measured),
        note="Errors are differences of validation logits from those before, in float64 but for the last column; "
        f"std {made.std:.3g} is that of the logits before. Losses in nats, in {made.config.dtype}.",
    )


def history(made: Conversion, origin: str) -> str:
    """How the weights came to be, in words for the file's metadata."""
    words = f"{'exact' if not made.reasons else 'approximate'} conversion ({made.method}) of {origin}"
    return f"{words}, then {made.steps} steps of training" if made.steps else words


def _row(row: Measured, std: float) -> tuple[str, ...]:
    relative = None if row.rms_error is None or not std else row.rms_error / std
    errors = (row.max_error, relative, row.run_error)
    return (row.name, loss_text(row.loss, digits=4), *("" if error is None else f"{error:.2g}" for error in errors))
