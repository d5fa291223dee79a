"""Files that normexp copies into the user's folder: a starter config with its plugin, and the configs and examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

import normexp
from normexp.errors import UserError
from normexp.storage.files import make_folder, storage_errors

PLAIN_SUFFIX = ".txt"
"""Ends the names of Python files in the package that are not part of the program."""
SHIPPED = ("configs", "examples")


def starter() -> dict[str, bytes]:
    """Return the starter config and its plugin, name to content."""
    return {name.removesuffix(PLAIN_SUFFIX): content for name, content in _contents(_package() / "starter")}


def shipped() -> dict[str, bytes]:
    """Return the configs and examples of the repository, path to content.

    The wheel has copies of them (`setup.py`); a checkout has them beside the package. Raises UserError without both.
    """
    package = _package()
    checkout = [package.parent] if (package.parent / "pyproject.toml").is_file() else []
    for root in (package / "shipped", *checkout):
        if (root / SHIPPED[0]).is_dir():
            return {f"{name}/{file}": content for name in SHIPPED for file, content in _contents(root / name)}
    raise UserError("this installation of normexp has no configs and examples: install its wheel, or use a checkout")


def _package() -> Path:
    return Path(str(resources.files(normexp)))


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            yield path.name, path.read_bytes()


def write_new(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder and return their paths. Raises UserError, before writing, if one of them exists."""
    paths = {folder / name: content for name, content in files.items()}
    if there := [str(path) for path in paths if path.exists() or path.is_symlink()]:
        verb = "exists" if len(there) == 1 else "exist"
        raise UserError(f"{', '.join(there)} already {verb}: nothing was written; give another folder")
    for path, content in paths.items():
        make_folder(path.parent)
        with storage_errors(path), path.open("xb") as file:
            file.write(content)
    return list(paths)
