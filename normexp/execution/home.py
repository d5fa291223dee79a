"""Keep libraries from making folders in the user's home: what they cache belongs in the cache folder, or nowhere.

The functions set an environment variable before the library is imported, and only where the user has not set it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

NO_FOLDER = os.devnull
"""Where matplotlib can make no folder: it then takes a temporary one, which it removes at the end."""
DASK_SETTINGS = Path(__file__).parent / "dask" / "dask.yaml"


def redirect_matplotlib() -> None:
    """Let matplotlib use its cache folder alone, and a temporary one without a home.

    By itself it makes ~/.config/matplotlib and ~/.cache/matplotlib, and even the home where that is missing. If the
    first exists, it may hold the user's settings, and nothing is changed. Other systems have no such folder.
    """
    if "matplotlib" in sys.modules or os.environ.get("MPLCONFIGDIR") or not sys.platform.startswith("linux"):
        return
    settings, cache = _folder("XDG_CONFIG_HOME", ".config"), _folder("XDG_CACHE_HOME", ".cache")
    if settings is None or not os.path.isdir(settings / "matplotlib"):
        os.environ["MPLCONFIGDIR"] = NO_FOLDER if cache is None else str(cache / "matplotlib")


def redirect_dask() -> None:
    """Keep dask from writing its default settings to ~/.config/dask. Settings that are there are still read."""
    if "dask" not in sys.modules:
        os.environ.setdefault("DASK_CONFIG", str(DASK_SETTINGS))


def _folder(variable: str, name: str) -> Path | None:
    """The folder that a variable of the XDG specification names, or its default; None where there is no home."""
    given = os.environ.get(variable, "")
    if os.path.isabs(given):  # the specification has others ignored
        return Path(given)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / name if os.path.isdir(home) else None
