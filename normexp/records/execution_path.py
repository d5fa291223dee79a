"""The three ways in which a training step is computed: equal up to rounding, but not in speed."""

from __future__ import annotations

import os
from enum import StrEnum

from normexp.errors import UserError

VARIABLE = "NORMEXP_PATH"
"""The environment variable that chooses a path, for tests and comparisons."""


class ExecutionPath(StrEnum):
    """Autograd, the reference; a tape of ATen calls; compiled kernels, with ATen calls where a module has no kernel."""

    AUTOGRAD = "autograd"
    TAPE = "tape"
    COMPILED = "compiled"


def requested() -> ExecutionPath | None:
    """The path that the environment asks for; None where it asks for none. Raises UserError for an unknown name."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        return None
    try:
        return ExecutionPath(name)
    except ValueError:
        raise UserError(f"{VARIABLE}={name}: unknown path; write {', '.join(ExecutionPath)} or unset it") from None
