"""A sweep's runs in one small file, from which its folder is restored: to keep, to send, to go on elsewhere.

`runs.tar.xz` holds sweep.yaml, manifest.json, and of every run that its points ask for run.json and log.txt, byte for
byte, and its curve and layers (`normexp.results.compact`), but for gradient norms, which no table, figure or check
reads. Weights are left out.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normexp.errors import UserError
from normexp.results import codec, compact, manifest
from normexp.results.atomic import make_folder, storage_errors, write_atomically
from normexp.results.store import CURVE, DEATH, LAYERS, LOG, MANIFEST, PACK, RUN, RUNS, SAFE, SWEEP, Store

FILTERS: list[dict[str, Any]] = [
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}
]
"""Tuned to digits; any xz reads them."""
TRACES: Mapping[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    CURVE: (compact.curve_from_text, codec.curve_to_csv),
    LAYERS: (compact.signal_from_text, codec.signal_to_csv),
    DEATH: (compact.signal_from_text, codec.signal_to_csv),
}
"""Name to how it is read from a pack, and written into a folder."""
MEMBER = re.compile(rf"{RUNS}/({SAFE.pattern})/([a-z]+\.[a-z]+)")

Files = dict[str, bytes]
"""Name to content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A pack as written, and what of its folder could not be packed."""

    path: Path
    runs: int
    size_bytes: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """So many runs came from a pack; so many more were there already, and stay as they were."""

    folder: Path
    runs: int
    kept: int


def pack(store: Store) -> Packed:
    """Write a sweep's pack, in place of any older one; equal runs give equal bytes. Raises UserError."""
    runs = {run_id: _run_files(store, run_id) for run_id in store.records()}
    files = {name: _read(store.folder / name) for name in (SWEEP, MANIFEST) if (store.folder / name).is_file()}
    for name in (RUN, LOG, *TRACES):  # like beside like is smaller
        files |= {f"{RUNS}/{run_id}/{name}": found[name] for run_id, found in runs.items() if name in found}
    data = lzma.compress(_tar(files), filters=FILTERS)
    write_atomically(store.folder / PACK, data)
    return Packed(path=store.folder / PACK, runs=len(runs), size_bytes=len(data), warnings=tuple(store.warnings))


def unpack(path: Path) -> Restored:
    """Restore what a pack holds and its folder lacks: nothing there is overwritten.

    Raises UserError where the pack is damaged, before anything is written, and where the folder is in use.
    """
    top, runs = _parts(path)
    folder, store = path.parent, Store(path.parent)
    with store.lock():
        for name, content in top.items():
            if not (folder / name).exists():
                write_atomically(folder / name, content)
        there = store.ended()
        for run_id, files in runs.items():
            if run_id not in there:
                _write(folder / RUNS / run_id, files)
    return Restored(folder=folder, runs=len(runs.keys() - there), kept=len(runs.keys() & there))


def _run_files(store: Store, run_id: str) -> Files:
    folder, traces = store.folder / RUNS / run_id, store.traces(run_id)
    texts = {
        CURVE: compact.curve_to_text(traces.curve),
        LAYERS: compact.signal_to_text(traces.layers),
        DEATH: compact.signal_to_text(traces.death_layers),
    }
    found = {name: _read(folder / name) for name in (RUN, LOG) if (folder / name).is_file()}
    return found | {name: text.encode() for name, text in texts.items() if (folder / name).is_file()}


def _write(folder: Path, files: Files) -> None:
    """The files of a run; run.json comes last, for with it the run counts."""
    make_folder(folder)
    for name in sorted(files, key=RUN.__eq__):
        write_atomically(folder / name, files[name])


def _parts(path: Path) -> tuple[Files, dict[str, Files]]:
    """The files of the folder itself, and those of each run, as they are written. Raises UserError."""
    top: Files = {}
    runs: dict[str, Files] = {}
    try:
        for name, content in _untar(lzma.decompress(_read(path))).items():
            fits = MEMBER.fullmatch(name)
            if name in (SWEEP, MANIFEST):
                top[name] = content
            elif fits and fits[2] in (RUN, LOG, *TRACES):
                runs.setdefault(fits[1], {})[fits[2]] = _unpacked(fits[2], content)
            else:
                raise ValueError(f"{name[:80]!r} has no place in it")
        _check(top, runs)
    except (lzma.LZMAError, tarfile.TarError, EOFError, ValueError) as fault:
        raise UserError(f"{path} is damaged, and nothing of it was restored: {fault}") from fault
    return top, runs


def _unpacked(name: str, content: bytes) -> bytes:
    if name not in TRACES:
        return content
    read, written = TRACES[name]
    return written(read(content.decode("utf-8"))).encode()


def _check(top: Mapping[str, bytes], runs: Mapping[str, Files]) -> None:
    """Raises ValueError where what is packed could not be read from a folder."""
    if MANIFEST not in top:
        raise ValueError(f"it lacks {MANIFEST}")
    manifest.parse(top[MANIFEST].decode("utf-8"))
    for run_id, files in runs.items():
        if RUN not in files:
            raise ValueError(f"it lacks {RUN} of {run_id}")
        try:
            record = codec.record_from_json(files[RUN].decode("utf-8"))
        except codec.UnknownRow:
            continue  # a run of a plugin that was not given
        if record.run_id != run_id and not record.config.plugins():
            raise ValueError(f"the config of {run_id} is that of {record.run_id}")


def _tar(files: Mapping[str, bytes]) -> bytes:
    """Without times, owners or modes of this machine."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _untar(data: bytes) -> Files:
    files: Files = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            files[member.name] = content.read() if content is not None else b""
    return files


def _read(path: Path) -> bytes:
    with storage_errors(path, "read"):
        return path.read_bytes()
