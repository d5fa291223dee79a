"""normexp: does this deep network train, and if it does not, when, where and why does it break?

From Python: `run` makes one run, `sweep` a grid of them, and `load` reads what is stored. What they need is imported
when they are first used, so that `import normexp` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from normexp.api import SweepResult, load, run, sweep
    from normexp.config.run import RunConfig
    from normexp.errors import ConfigWarning, UserError
    from normexp.records.record import Outcome, RunRecord, Status

__version__ = "0.1.0"
__all__ = [
    "ConfigWarning",
    "Outcome",
    "RunConfig",
    "RunRecord",
    "Status",
    "SweepResult",
    "UserError",
    "load",
    "run",
    "sweep",
]

_HOMES = {
    "RunConfig": "normexp.config.run",
    **dict.fromkeys(("ConfigWarning", "UserError"), "normexp.errors"),
    **dict.fromkeys(("Outcome", "RunRecord", "Status"), "normexp.records.record"),
    **dict.fromkeys(("SweepResult", "load", "run", "sweep"), "normexp.api"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'normexp' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
