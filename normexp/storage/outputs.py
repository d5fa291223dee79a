"""Files of weights by their path or by the id of a stored run: bytes alone, which `normexp.training.weights` reads.

What stands where files of a sweep go: found before its first run, for what that gives would have no place.

What a command has measured, in a folder of its own: a table, and its figure.

The figures of a sweep as they lie in its folder, and whether they are those of its tables.
"""

from __future__ import annotations

import contextlib
import hashlib
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import normexp
from normexp.errors import UserError
from normexp.storage import index
from normexp.storage.files import WEBPAGE, below, is_readable, make_folder, read_those, storage_errors, write_atomically
from normexp.storage.lock import driver_lock
from normexp.storage.store import CURVE, DEATH, DRAWN, FIGURES, LAYERS, LOG, RUN, RUNS, TABLES, WEIGHTS, Store


def check_places(store: Store, run_ids: Iterable[str]) -> None:
    """Raise UserError for what is no folder in the place of one, and no file in that of a table, or of these runs."""
    runs = [store.folder / RUNS / run_id for run_id in run_ids]
    files = [folder / name for folder in runs for name in (RUN, CURVE, LAYERS, DEATH, LOG, WEIGHTS)]
    files += [store.folder / name for name in (*TABLES, WEBPAGE, DRAWN)]
    told = [
        f"{path} is no folder: remove it" for path in (store.folder / FIGURES, *runs) if not _is(stat.S_ISDIR, path)
    ]
    told += [f"{path} is no file: remove it" for path in files if not _is(stat.S_ISREG, path)]
    if told:
        raise UserError(*told)


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    """Whether it is of a kind, and no link to such; or not there."""
    try:
        return kind(path.lstat().st_mode)
    except OSError:
        return True


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make the folder if need be, and hold it. Raises UserError where it is a sweep's, or another command holds it."""
    if Store(folder).exists():
        raise UserError(f"{folder} is the folder of a sweep: choose another with --out")
    make_folder(below(folder.parent, folder.name))
    with driver_lock(folder):
        yield


def write_measured(folder: Path, name: str, csv: str, images: Mapping[str, bytes]) -> None:
    """Write the table, and each image by its suffix, under one name. Raises StorageError."""
    write_atomically(folder / f"{name}.csv", csv)
    for suffix, image in images.items():
        write_atomically(folder / f"{name}.{suffix}", image)


def pictures(folder: Path) -> dict[str, bytes]:
    """The PNGs of a sweep's figures by name, without suffix. Raises UserError."""
    found = {}
    for path in sorted((folder / FIGURES).glob("*.png")):
        with storage_errors(path, "read"):
            found[path.stem] = below(folder, FIGURES, path.name).read_bytes()
    return found


def drawn(folder: Path, tables: Iterable[str]) -> bool:
    """Whether a sweep's figures and page were made by this program from these tables, and are all there, undamaged."""
    try:
        digest, *names = read_those(folder, (DRAWN,)).get(DRAWN, b"").decode("utf-8", "replace").splitlines()
        return digest == _digest(tables) and set(names) <= {*_figures(folder)}
    except (UserError, ValueError):
        return False


def note_drawn(folder: Path, tables: Iterable[str]) -> None:
    """Let `drawn` know that the figures are of these tables. Raises StorageError."""
    write_atomically(below(folder, DRAWN), "\n".join([_digest(tables), *_figures(folder)]) + "\n")


def _digest(tables: Iterable[str]) -> str:
    digest = hashlib.sha256(normexp.__version__.encode())
    for table in tables:
        digest.update(table.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _figures(folder: Path) -> list[str]:
    """Digest and name of each: a damaged one is none of them."""
    paths = [path for path in (*sorted((folder / FIGURES).glob("*.*")), folder / WEBPAGE) if path.is_file()]
    with storage_errors(folder, "read"):
        return [f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.name}" for path in paths]


PICKLED = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"}
SUFFIX = ".safetensors"


def read(out: Path, name: str) -> tuple[bytes, str]:
    """The bytes and the path of the file, run folder, or run (stored under `out`) of this name. Raises UserError."""
    path = Path(name)
    if path.suffix.lower() in PICKLED:
        raise UserError(
            f"{path}: files of torch.save can run code when they are read, so they are not: write the state dict with "
            "safetensors.torch.save_file, and give that file"
        )
    folder = path.parent if path.name == WEIGHTS else path
    if is_readable(folder / WEIGHTS) and is_readable(folder / RUN) and folder.parent.name == RUNS:
        stored, data = Store(folder.parent.parent).weights(folder.name)
        if data is not None:
            return data, str(stored)
    with storage_errors(path, "read"):
        if path.is_file():
            return path.read_bytes(), str(path)
        if (path / WEIGHTS).is_file():
            return (path / WEIGHTS).read_bytes(), str(path / WEIGHTS)
    if path.suffix == SUFFIX:
        raise UserError(f"{path}: no such file")
    store, record = index.find(out, name, traces=False)
    complaints: list[str] = []
    for holder in (store, *index.sweeps(out)):
        try:
            stored, data = holder.weights(record.run_id)
        except UserError as fault:
            complaints += [complaint for complaint in fault.complaints if complaint not in complaints]
            continue
        if data is not None:
            return data, str(stored)
    raise UserError(
        *complaints or [f"{record.run_id} is stored without weights: run its sweep again with --save-weights"]
    )


def check_target(path: Path, *, force: bool) -> None:
    """Raise UserError where `write` would: nothing is written."""
    with storage_errors(path):
        if path.suffix != SUFFIX:
            raise UserError(f"{path}: weights go to a file whose name ends in {SUFFIX}")
        if path.is_dir():
            raise UserError(f"{path} is a folder: write the name of a file")
        if not path.parent.is_dir():
            raise UserError(f"{path.parent} is no folder: make it first")
        if path.exists() and not force:
            raise UserError(f"{path} is there already: choose another name, or overwrite it with --force")


def write_weights(path: Path, data: bytes, *, force: bool) -> None:
    """Write a new file, whole or not at all; `force` replaces one. Raises UserError."""
    check_target(path, force=force)
    write_atomically(path, data)
