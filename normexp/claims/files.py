"""Which claims file is meant, and which of its claims: those that ship with the package, or one of the user's."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from normexp.claims.claim import Claim, ClaimFile
from normexp.claims.parser import load
from normexp.config.yaml_file import nearest
from normexp.errors import UserError
from normexp.storage import RESULTS

FOLDER = Path(__file__).parents[1] / "texts"
DEFAULT = "article"


def shipped() -> dict[str, Path]:
    """The claims files of the package, by name."""
    return {path.parent.name: path for path in sorted(FOLDER.glob("*/claims.yaml"))}


def choose(names: Sequence[str]) -> tuple[ClaimFile, list[Claim], bool]:
    """The file, its claims that are asked for, and whether that is one by its whole id.

    A name is that of a shipped file, a path, or an id or how it begins, whose first part then names a shipped file.
    Raises UserError.
    """
    files, ids = [], []
    known = shipped()
    for name in names:
        if name in known:
            files.append(known[name])
        elif name.endswith((".yaml", ".yml")) or Path(name).is_file():
            files.append(Path(name))
        else:
            ids.append(name)
    if len(files) > 1:
        raise UserError(f"{' and '.join(map(str, files))}: give one claims file at a time")
    if not files:
        first = ids[0].partition(".")[0] if ids else DEFAULT
        if ids and first not in known:
            raise UserError(f"{ids[0]}: no claims file, and no id of one; {nearest(first, known)}")
        files = [known[first]]
    file = load(_shown(files[0]))
    chosen = _chosen(file, ids)
    return file, chosen, len(ids) == 1 and [claim.id for claim in chosen] == ids


def folder_of(file: ClaimFile, scale: float) -> Path:
    """Where the runs of a file lie unless told otherwise; quick ones, of another scale than 1, apart."""
    return RESULTS / (file.name if scale == 1.0 else f"{file.name}-quick")


def beside(folder: Path) -> tuple[Path, ...]:
    """Where else under results/ runs may be: sweeps by themselves, and those of shipped files. Nowhere for others."""
    if folder.parent != RESULTS:
        return ()
    return RESULTS, *(RESULTS / name for name in shipped() if RESULTS / name != folder)


def _shown(path: Path) -> Path:
    """As seen from the working directory, where it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def _chosen(file: ClaimFile, ids: Iterable[str]) -> list[Claim]:
    """The claims whose id is one of these, or begins with one and a dot; all without any."""
    wanted = list(ids)
    complaints = []
    for name in wanted:
        if not any(_named(claim, name) for claim in file.claims):
            parts = {".".join(c.id.split(".")[:end]) for c in file.claims for end in range(1, c.id.count(".") + 2)}
            near = _near(name, sorted(parts))
            complaints.append(f"{file.path}: no claim is called {name}; {near}")
    if complaints:
        raise UserError(*complaints)
    return [claim for claim in file.claims if not wanted or any(_named(claim, name) for name in wanted)]


def _near(name: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {found[0]}?" if found else "without an id, all are listed"


def _named(claim: Claim, name: str) -> bool:
    return claim.id == name or claim.id.startswith(name + ".")


def called(file: ClaimFile) -> str:
    """What a command is given to mean this file: the name of a shipped one, the path of any other."""
    paths = {path.resolve(): name for name, path in shipped().items()}
    return paths.get(file.path.resolve(), str(file.path))
