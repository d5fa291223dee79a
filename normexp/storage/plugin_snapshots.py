"""Copies of the plugins that a sweep's runs used, `plugins/HASH.py`, to be loaded with --plugin.

Users change their files, but a run id contains the hash of the plugin's text. The copies are never run unless a user
passes them.
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
    """Write the text of each loaded plugin that one of the runs uses. The caller has locked the folder.

    Raises StorageError or NotFollowed.
    """
    remove_leftovers(below(folder, PLUGINS))
    loaded = {plugin.digest: plugin.text for plugin in plugins.loaded()}
    used = {origin for config in configs for origin in config.plugins()} if loaded else set()
    write(folder, {f"{digest}.py": loaded[digest].encode() for digest in used & loaded.keys()})


def kept(folder: Path) -> dict[str, bytes]:
    """Return the unchanged copies in a folder, name to text. Raises StorageError or NotFollowed."""
    copies = below(folder, PLUGINS)
    names = sorted(path.name for path in copies.glob("*.py") if NAME.fullmatch(path.name))
    return {name: text for name, text in read_those(copies, names).items() if fits(name, text)}


def fits(name: str, text: bytes) -> bool:
    """Return whether a text has the hash in its name, `HASH.py`."""
    return name == f"{plugins.digest(text)}.py"


def write(folder: Path, texts: Mapping[str, bytes]) -> None:
    """Write texts by name, replacing changed copies. Raises StorageError or NotFollowed."""
    copies = below(folder, PLUGINS)
    existing = read_those(copies, sorted(texts))
    for name in sorted(texts):
        make_folder(copies)
        if existing.get(name) != texts[name]:
            write_atomically(below(copies, name), texts[name])


def advice(folder: Path, error: Exception, otherwise: str) -> str:
    """Return `; stored with the runs: PATHS` with the copies that may be the missing plugin; empty without copies.

    Return `otherwise` if the error does not come from a missing plugin.
    """
    if not isinstance(error, UnknownRow):
        return otherwise
    paths = not_given(folder)
    return f"; stored with the runs: {', '.join(paths)}" if paths else ""


def not_given(folder: Path) -> list[str]:
    """Return the paths of copies that are not loaded; none if they cannot be read."""
    loaded = {f"{plugin.digest}.py" for plugin in plugins.loaded()}
    with contextlib.suppress(UserError):
        return [str(folder / PLUGINS / name) for name in kept(folder) if name not in loaded]
    return []
