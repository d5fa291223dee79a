"""How much a final loss hangs on a setting that is scanned, the learning rate above all."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def sensitivity(final: Sequence[float], initial: Sequence[float]) -> float:
    """Mean over the values of a setting of min(final, initial loss), less the lowest of these; in nats, at least 0.

    `final` and `initial` are the losses of one seed, one a value; NaN counts as infinite. It is the expected distance
    from the optimum, with a loss no worse than that before training (Wortsman et al. 2023, 2309.14322, section 2).
    It depends on the range that is scanned, and is 0 where nothing learns. Raises ValueError where there are none.
    """
    losses = _capped(final, initial)
    lowest = min(losses)
    return statistics.fmean(losses) - lowest if math.isfinite(lowest) else math.nan


def mean_loss(final: Sequence[float], initial: Sequence[float]) -> float:
    """Mean over the values of a setting of min(final, initial loss), in nats; see `sensitivity`."""
    return statistics.fmean(_capped(final, initial))


def _capped(final: Sequence[float], initial: Sequence[float]) -> list[float]:
    if not final or len(final) != len(initial):
        raise ValueError(f"{len(final)} final losses and {len(initial)} initial ones: one of each is needed a value")
    return [min(_or_inf(after), _or_inf(before)) for after, before in zip(final, initial, strict=True)]


def _or_inf(loss: float) -> float:
    return math.inf if math.isnan(loss) else loss
