"""Copies of the plugins that a sweep's runs used, `plugins/HASH.py`.

Users change their files, but a run id contains the hash of the plugin's text. A copy is only run if a user passes it
with --plugin, or if the sweep's config names it and this user has made runs from a config with the same text: results
folders may come from elsewhere. The user's cache folder has an empty file for each text that a config has named.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from normexp.config import plugins
from normexp.config.run import RunConfig, UnknownRow
from normexp.errors import UserError
from normexp.storage.files import below, make_folder, read_those, remove_leftovers, write_atomically

PLUGINS = "plugins"
PRIVATE = 0o700
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


def approve(named: Mapping[str, str]) -> None:
    """Note that the user has named these plugins, name to digest, in a config; only those that are loaded count.

    Without a cache folder of this user alone, nothing is noted.
    """
    folder = _approvals()
    if folder is None:
        return
    for digest in {plugin.digest for plugin in plugins.loaded()} & set(named.values()):
        with contextlib.suppress(OSError):
            (folder / digest).touch(mode=PRIVATE)


def load_named(folder: Path, named: Mapping[str, str]) -> bool:
    """Load the copies of the plugins that the config of a sweep names, name to digest. Return whether one was loaded.

    A copy is left out if its text does not have this digest, if the user has not named it, or if a loaded plugin has a
    row with the same name. Raises StorageError or NotFollowed.
    """
    approvals, before = _approvals(), plugins.loaded()
    copies = kept(folder) if named and approvals else {}
    for name, digest in named.items():
        text = copies.get(f"{digest}.py")
        if text is not None and approvals is not None and (approvals / digest).is_file():
            path = folder / PLUGINS / f"{digest}.py"
            with contextlib.suppress(UserError):
                plugins.add(plugins.read(path, name), from_config=True)
    return plugins.loaded() != before


def _approvals() -> Path | None:
    """Return the folder of approvals in the user's cache, created if needed; None unless it is this user's alone."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(root) if os.path.isabs(root) else Path.home() / ".cache"
        if not base.parent.is_dir():
            return None
        folder = base / "normexp" / PLUGINS
        for part in (base, folder.parent, folder):
            part.mkdir(mode=PRIVATE, exist_ok=True)
        found = folder.lstat()
    except (OSError, RuntimeError):  # a read-only place; no home at all
        return None
    mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return folder if stat.S_ISDIR(found.st_mode) and mine and not found.st_mode & 0o077 else None


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
