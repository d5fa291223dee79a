"""The three ways to compute a training step. Their results are equal up to rounding; their speed differs."""

from __future__ import annotations

import os
from enum import StrEnum

from normexp.errors import UserError

VARIABLE = "NORMEXP_PATH"
"""The environment variable that selects a path, for tests and comparisons."""


class ExecutionPath(StrEnum):
    """Autograd, the reference; a tape of ATen calls; or compiled kernels, with ATen calls for modules without one."""

    AUTOGRAD = "autograd"
    TAPE = "tape"
    COMPILED = "compiled"


def requested() -> ExecutionPath | None:
    """Return the path set in the environment, or None if it is not set. Raises UserError for an unknown name."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        return None
    try:
        return ExecutionPath(name)
    except ValueError:
        raise UserError(f"{VARIABLE}={name}: unknown path: set it to {', '.join(ExecutionPath)}, or unset it") from None
