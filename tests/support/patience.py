"""Wait for conditions without assumptions about the speed of the machine.

The conditions never come true by themselves: work that must be stopped would take hours. So a long timeout weakens no
test, and a slow machine fails none.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 300.0
"""Timeout of waiting."""
HOURS = 3 * 3600
"""Seconds of work that does not end by itself during a test."""


def wait_until(condition: Callable[[], object], message: Callable[[], object] = lambda: "timed out") -> None:
    """Wait until a condition is true. After PATIENCE_SECONDS, the test fails with the message."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, message()
        time.sleep(0.02)
