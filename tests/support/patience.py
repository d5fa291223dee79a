"""Waiting for what must come, without a guess at how fast a machine is.

What a test waits for does not come by itself: work that must be stopped would go on for hours. So a long patience
weakens no test, and a slow machine fails none.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 300.0
"""How long a test waits before it takes what it waits for as not coming."""
HOURS = 3 * 3600
"""Seconds of work that does not end by itself while a test runs."""


def wait_until(condition: Callable[[], object], told: Callable[[], object] = lambda: "it does not come") -> None:
    """Look at a condition every few milliseconds. After PATIENCE_SECONDS the test fails with what is `told`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)
