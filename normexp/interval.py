"""The interval in which the mean of a few values lies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def half_interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % t-interval of a mean, of two values or more."""
    from scipy.special import stdtrit

    return float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / math.sqrt(len(values))
