"""normexp: does this deep network train, and if it does not, when, where and why does it break?

`run` trains one network, `sweep` trains a grid of them, and `load` reads stored results. These names are imported on
first use, so `import normexp` loads neither torch nor NumPy.
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

_MODULES = {
    "RunConfig": "normexp.config.run",
    **dict.fromkeys(("ConfigWarning", "UserError"), "normexp.errors"),
    **dict.fromkeys(("Outcome", "RunRecord", "Status"), "normexp.records.record"),
    **dict.fromkeys(("SweepResult", "load", "run", "sweep"), "normexp.api"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'normexp' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
