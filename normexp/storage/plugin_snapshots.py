"""The plugins that a sweep's runs come from, kept beside them: `plugins/HASH.py`, which is given with --plugin.

A user's file goes on changing, and the id of a run holds the hash of the text that made it. Nothing here is ever run
unless a user names it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from normexp.config import plugins
from normexp.config.run import RunConfig, UnknownRow
from normexp.errors import UserError
from normexp.storage.files import below, make_folder, read_those, remove_leftovers, write_atomically

PLUGINS = "plugins"
NAME = re.compile(r"[0-9a-f]{16}\.py")


def keep(folder: Path, configs: Collection[RunConfig]) -> None:
    """Write the text of each loaded plugin that one of the runs uses. The caller holds the folder.

    Raises StorageError or NotFollowed.
    """
    remove_leftovers(below(folder, PLUGINS))
    loaded = {plugin.digest: plugin.text for plugin in plugins.loaded()}
    used = {origin for config in configs for origin in config.plugins()} if loaded else set()
    write(folder, {f"{digest}.py": loaded[digest].encode() for digest in used & loaded.keys()})


def kept(folder: Path) -> dict[str, bytes]:
    """Name to text of those that are there, but for any that was changed. Raises StorageError or NotFollowed."""
    place = below(folder, PLUGINS)
    names = sorted(path.name for path in place.glob("*.py") if NAME.fullmatch(path.name))
    return {name: text for name, text in read_those(place, names).items() if fits(name, text)}


def fits(name: str, text: bytes) -> bool:
    """Whether a text is that of its name, `HASH.py`."""
    return name == f"{plugins.digest(text)}.py"


def write(folder: Path, texts: Mapping[str, bytes]) -> None:
    """Add texts, by name, in place of any that was changed. Raises StorageError or NotFollowed."""
    place = below(folder, PLUGINS)
    there = read_those(place, sorted(texts))
    for name in sorted(texts):
        make_folder(place)
        if there.get(name) != texts[name]:
            write_atomically(below(place, name), texts[name])


def advice(folder: Path, error: Exception, otherwise: str) -> str:
    """Where the lacking plugin may be, not given yet: `; kept with the runs: results/own/plugins/0123456789abcdef.py`.

    Where the error is not that one is lacking: what is told `otherwise`.
    """
    if not isinstance(error, UnknownRow):
        return otherwise
    paths = not_given(folder)
    return f"; kept with the runs: {', '.join(paths)}" if paths else ""


def not_given(folder: Path) -> list[str]:
    """The paths of the plugins kept there that are not loaded; a fault of these files counts as none."""
    given = {f"{plugin.digest}.py" for plugin in plugins.loaded()}
    with contextlib.suppress(UserError):
        return [str(folder / PLUGINS / name) for name in kept(folder) if name not in given]
    return []
