"""Output files of commands: checks of their paths, measured tables, figures of sweeps, and weights."""

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

PICKLED = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"}
SUFFIX = ".safetensors"


def check_places(store: Store, run_ids: Iterable[str]) -> None:
    """Check that the output paths of a sweep and of these runs are free, or regular files and folders.

    Raises UserError with a line for every other path. Called before the first run, whose result could not be stored.
    """
    runs = [store.folder / RUNS / run_id for run_id in run_ids]
    files = [folder / name for folder in runs for name in (RUN, CURVE, LAYERS, DEATH, LOG, WEIGHTS)]
    files += [store.folder / name for name in (*TABLES, WEBPAGE, DRAWN)]
    folders = [store.folder / FIGURES, *runs]
    complaints = [f"{path} is not a folder: remove it" for path in folders if not _is_free_or(stat.S_ISDIR, path)]
    complaints += [f"{path} is not a file: remove it" for path in files if not _is_free_or(stat.S_ISREG, path)]
    if complaints:
        raise UserError(*complaints)


def _is_free_or(kind: Callable[[int], bool], path: Path) -> bool:
    """Return whether a path does not exist or is of a kind. Symbolic links are not followed."""
    try:
        return kind(path.lstat().st_mode)
    except OSError:
        return True


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create a folder if needed and lock it. Raises UserError if it is a sweep's or locked by another command."""
    if Store(folder).exists():
        raise UserError(f"{folder} is the folder of a sweep: choose another with --out")
    make_folder(below(folder.parent, folder.name))
    with driver_lock(folder):
        yield


def write_measured(folder: Path, name: str, csv: str, images: Mapping[str, bytes]) -> None:
    """Write a table and its images (by suffix) under one name. Raises StorageError."""
    write_atomically(folder / f"{name}.csv", csv)
    for suffix, image in images.items():
        write_atomically(folder / f"{name}.{suffix}", image)


def pictures(folder: Path) -> dict[str, bytes]:
    """Return the PNG figures of a sweep by name, without suffix. Raises UserError."""
    images = {}
    for path in sorted((folder / FIGURES).glob("*.png")):
        with storage_errors(path, "read"):
            images[path.stem] = below(folder, FIGURES, path.name).read_bytes()
    return images


def drawn(folder: Path, tables: Iterable[str]) -> bool:
    """Return whether this version drew a sweep's figures and page from these tables, and all are undamaged."""
    try:
        digest, *names = read_those(folder, (DRAWN,)).get(DRAWN, b"").decode("utf-8", "replace").splitlines()
        return digest == _digest(tables) and set(names) <= {*_figure_digests(folder)}
    except (UserError, ValueError):
        return False


def note_drawn(folder: Path, tables: Iterable[str]) -> None:
    """Record for `drawn` that the figures show these tables. Raises StorageError."""
    write_atomically(below(folder, DRAWN), "\n".join([_digest(tables), *_figure_digests(folder)]) + "\n")


def _digest(tables: Iterable[str]) -> str:
    digest = hashlib.sha256(normexp.__version__.encode())
    for table in tables:
        digest.update(table.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _figure_digests(folder: Path) -> list[str]:
    """Return digest and name of each figure and of the page."""
    paths = [path for path in (*sorted((folder / FIGURES).glob("*.*")), folder / WEBPAGE) if path.is_file()]
    with storage_errors(folder, "read"):
        return [f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.name}" for path in paths]


def read(out: Path, name: str) -> tuple[bytes, str]:
    """Return weights and their path, by the name of a file, a run's folder, or a run under `out`. Raises UserError."""
    path = Path(name)
    if path.suffix.lower() in PICKLED:
        raise UserError(
            f"{path}: files of torch.save are not read, because they can run code: save the state dict with "
            "safetensors.torch.save_file and use that file"
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
    raise UserError(*complaints or [f"{record.run_id} is stored without weights: rerun its sweep with --save-weights"])


def check_target(path: Path, *, force: bool) -> None:
    """Raise UserError if `write_weights` would refuse the path. Nothing is written."""
    with storage_errors(path):
        if path.suffix != SUFFIX:
            raise UserError(f"{path}: the name of a weights file must end in {SUFFIX}")
        if path.is_dir():
            raise UserError(f"{path} is a folder: write the name of a file")
        if not path.parent.is_dir():
            raise UserError(f"{path.parent} is not a folder: create it first")
        if path.exists() and not force:
            raise UserError(f"{path} already exists: choose another name, or overwrite it with --force")


def write_weights(path: Path, data: bytes, *, force: bool) -> None:
    """Write a weights file. `force` overwrites an existing one. Raises UserError."""
    check_target(path, force=force)
    write_atomically(path, data)
