"""Files of weights by their path or by the id of a stored run: bytes alone, which `normexp.training.weights` reads."""

from __future__ import annotations

from pathlib import Path

from normexp.errors import UserError
from normexp.results import library
from normexp.results.atomic import is_readable, storage_errors, write_atomically
from normexp.results.store import RUN, RUNS, WEIGHTS, Store

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
    store, record = library.find(out, name, traces=False)
    complaints: list[str] = []
    for holder in (store, *library.sweeps(out)):
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


def write(path: Path, data: bytes, *, force: bool) -> None:
    """Write a new file, whole or not at all; `force` replaces one. Raises UserError."""
    check_target(path, force=force)
    write_atomically(path, data)
