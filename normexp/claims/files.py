"""Find the claims file and the claims that a command names: shipped with the package, or the user's."""

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
    """Return the claims files of the package, by name."""
    return {path.parent.name: path for path in sorted(FOLDER.glob("*/claims.yaml"))}


def choose(names: Sequence[str]) -> tuple[ClaimFile, list[Claim], bool]:
    """Return the file, the chosen claims, and whether a single claim was chosen by its whole id.

    A name is a shipped file, a path, or the id (or a prefix of ids) of claims. Without a file, the first part of the id
    names a shipped one. Raises UserError.
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
        raise UserError(f"{' and '.join(map(str, files))}: choose one claims file")
    if not files:
        first = ids[0].partition(".")[0] if ids else DEFAULT
        if ids and first not in known:
            raise UserError(f"{ids[0]}: neither a claims file nor the id of a claim; {nearest(first, known)}")
        files = [known[first]]
    file = load(_shown(files[0]))
    chosen = _chosen(file, ids)
    return file, chosen, len(ids) == 1 and [claim.id for claim in chosen] == ids


def folder_of(file: ClaimFile, scale: float) -> Path:
    """Return the default folder of a file's runs. Quick runs, with a scale other than 1, have a separate folder."""
    return RESULTS / (file.name if scale == 1.0 else f"{file.name}-quick")


def beside(folder: Path) -> tuple[Path, ...]:
    """Return other folders under results/ to look for runs in; none for a folder that is not directly in results/."""
    if folder.parent != RESULTS:
        return ()
    return RESULTS, *(RESULTS / name for name in shipped() if RESULTS / name != folder)


def _shown(path: Path) -> Path:
    """Return a path relative to the working directory if it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def _chosen(file: ClaimFile, ids: Iterable[str]) -> list[Claim]:
    """Return the claims whose id is one of these or starts with one and a dot. Without ids, return all claims."""
    wanted = list(ids)
    complaints = []
    for name in wanted:
        if not any(_named(claim, name) for claim in file.claims):
            parts = {".".join(c.id.split(".")[:end]) for c in file.claims for end in range(1, c.id.count(".") + 2)}
            near = _near(name, sorted(parts))
            complaints.append(f"{file.path}: unknown claim {name}; {near}")
    if complaints:
        raise UserError(*complaints)
    return [claim for claim in file.claims if not wanted or any(_named(claim, name) for name in wanted)]


def _near(name: str, known: Sequence[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {matches[0]}?" if matches else "run without an id to list all"


def _named(claim: Claim, name: str) -> bool:
    return claim.id == name or claim.id.startswith(name + ".")


def called(file: ClaimFile) -> str:
    """Return the name of a shipped file, or the path of any other, for use in commands."""
    paths = {path.resolve(): name for name, path in shipped().items()}
    return paths.get(file.path.resolve(), str(file.path))
