"""Keep libraries from creating folders in the user's home, except in the cache folder.

The functions set an environment variable before the library is imported, unless the user has set it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

NO_FOLDER = os.devnull
"""A path where matplotlib cannot create a folder. It then uses a temporary one and removes it at exit."""
DASK_SETTINGS = Path(__file__).parent / "dask" / "dask.yaml"


def redirect_matplotlib() -> None:
    """Let matplotlib use only its cache folder, or a temporary folder if there is no home.

    By default, it creates ~/.config/matplotlib and ~/.cache/matplotlib, and even a missing home. If
    ~/.config/matplotlib exists, it may contain the user's settings, and nothing is changed. Only Linux is affected.
    """
    if "matplotlib" in sys.modules or os.environ.get("MPLCONFIGDIR") or not sys.platform.startswith("linux"):
        return
    settings, cache = _folder("XDG_CONFIG_HOME", ".config"), _folder("XDG_CACHE_HOME", ".cache")
    if settings is None or not os.path.isdir(settings / "matplotlib"):
        os.environ["MPLCONFIGDIR"] = NO_FOLDER if cache is None else str(cache / "matplotlib")


def redirect_dask() -> None:
    """Keep dask from writing its default settings to ~/.config/dask. Existing settings are still read."""
    if "dask" not in sys.modules:
        os.environ.setdefault("DASK_CONFIG", str(DASK_SETTINGS))


def _folder(variable: str, name: str) -> Path | None:
    """Return the folder of an XDG variable, or its default in the home folder; None without a home."""
    value = os.environ.get(variable, "")
    if os.path.isabs(value):  # the specification says to ignore relative paths
        return Path(value)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / name if os.path.isdir(home) else None
