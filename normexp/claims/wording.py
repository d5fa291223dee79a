"""How checks word what they found: selections, measures, numbers over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from normexp.claims.claim import Selection
from normexp.labels import Labels, loss_text

LOSS = "final_val_loss"
"""The measure that is meant where none is named."""


def spread_text(numbers: Sequence[float]) -> str:
    """`2.334 ± 0.010 (3)`, `2.334`, `inf (3)`."""
    if len(numbers) == 1:
        return loss_text(numbers[0])
    if not all(map(math.isfinite, numbers)):
        return f"median {loss_text(statistics.median(numbers))} ({len(numbers)})"
    return f"{loss_text(statistics.fmean(numbers))} ± {loss_text(statistics.stdev(numbers))} ({len(numbers)})"


def ends_text(numbers: Iterable[float]) -> str:
    """`0.12 to 0.14`, or the one number."""
    found = sorted(numbers)
    return " to ".join(dict.fromkeys((loss_text(found[0]), loss_text(found[-1]))))


def measure_text(measure: str) -> str:
    """`final loss`, `max logit after`."""
    return measure.replace("_val_", " ").replace("_", " ")


def lead(measure: str) -> str:
    """Nothing for the loss, which is meant where nothing is said; `roughness: `."""
    return "" if measure == LOSS else f"{measure_text(measure)}: "


def selection_text(selection: Selection, labels: Labels) -> str:
    """`norm none, lr 0.001 or 0.003`."""
    return ", ".join(
        f"{key} {' or '.join(labels.text(key, value) for value in values)}" for key, values in selection.items()
    )


def side_names(selections: Sequence[Selection], labels: Labels) -> list[str]:
    """What tells selections apart: `position post, warmup 1000`, `position pre`."""
    first, *others = selections
    shared = [key for key, values in first.items() if all(other.get(key) == values for other in others)]
    return [selection_text({key: side[key] for key in side if key not in shared}, labels) for side in selections]
