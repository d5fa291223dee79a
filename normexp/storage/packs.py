"""Packs: all runs of a sweep in one small file, from which its folder can be restored.

`runs.tar.xz` contains sweep.yaml, manifest.json and plugins, and for every run of the sweep run.json and log.txt byte
by byte, and curve and layers in short form (`normexp.storage.compact`). Weights are left out. Unpacking accepts only
regular files and limits their number and size, since packs may come from elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import lzma
import re
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from normexp.config.run import UnknownRow
from normexp.errors import UserError
from normexp.records.record import Result, RunRecord
from normexp.storage import codec, compact, manifest, plugin_snapshots
from normexp.storage.files import below, make_folder, read_those, remove_leftovers, storage_errors, write_atomically
from normexp.storage.folder_checks import check, is_record, stamps_from
from normexp.storage.store import CURVE, DEATH, LAYERS, LOG, MANIFEST, PACK, RUN, RUNS, SAFE, SWEEP, TRACES, Store

FILTERS: list[dict[str, Any]] = [
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}
]
"""Tuned to digits. Any xz program reads the result."""
MOST_BYTES = 2**31
"""Largest unpacked size of an archive. A few kilobytes can expand to any size."""
MOST_FILES = 10**6
REUSED = "reused.txt"
"""Replaces traces that another sweep has: contains the name of that sweep and the SHA-256 of their short forms."""
TEXT = re.compile(rf"{plugin_snapshots.PLUGINS}/({plugin_snapshots.NAME.pattern})")
MEMBER = re.compile(rf"{RUNS}/({SAFE.pattern})/([a-z]+\.[a-z]+)")
SHORT: Mapping[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    CURVE: (compact.from_curve, compact.to_curve),
    LAYERS: (compact.from_layers, compact.to_layers),
    DEATH: (compact.from_layers, compact.to_layers),
}
"""Functions to the short form and back, by file name."""

Files = dict[str, bytes]
"""Name to content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A written pack. `warnings` name files that could not be packed."""

    path: Path
    runs: int
    size_bytes: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The numbers of runs that were restored from a pack and that were already in the folder."""

    folder: Path
    runs: int
    kept: int


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return an archive without times, owners or modes. Raises UserError if it exceeds the limits of unpacking."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    if len(files) > MOST_FILES or buffer.tell() > MOST_BYTES:
        raise UserError(f"{len(files)} files of {buffer.tell() / 1e9:.1f} GB are too much for one pack")
    return lzma.compress(buffer.getvalue(), filters=FILTERS)


def files_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file in order. The archive is undamaged only if the end is reached.

    Raises StorageError if it cannot be read, and lzma.LZMAError, tarfile.TarError, EOFError, ValueError or MemoryError
    if it is damaged, too large, or contains anything but regular files.
    """
    with storage_errors(path, "read"), lzma.open(path) as stream:
        bounded = _Bounded(stream)
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for count, member in enumerate(tar, 1):
                content = tar.extractfile(member) if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None
                if content is None:
                    raise ValueError(f"{member.name[:80]!r} is not a regular file")
                if count > MOST_FILES:
                    raise ValueError(f"it contains more than {MOST_FILES} files")
                yield member.name, content.read()
        while bounded.read(2**20):  # the checksum is at the end
            pass


class _Bounded(io.BufferedIOBase):
    """A stream that raises ValueError after MOST_BYTES."""

    def __init__(self, stream: lzma.LZMAFile) -> None:
        self._stream, self._left = stream, MOST_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        most = self._left + 1
        data = self._stream.read(most if size is None or size < 0 else min(size, most))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {MOST_BYTES / 1e9:.1f} GB")
        return data


def pack(store: Store, among: Sequence[Store] = ()) -> Packed:
    """Write a sweep's pack, replacing an older one. Equal runs give equal bytes.

    Traces that were copied from a sweep in `among` are replaced by a reference to it. Runs of the older pack that the
    folder lacks are kept. Raises UserError.
    """
    beside = {other.folder.name: other for other in among}
    records = {name: other.records() for name, other in beside.items()}
    runs = _ended_runs(store)
    for run_id, files in runs.items():
        origin = _origin(records, store.folder.name, run_id)
        source = records[origin][run_id] if origin != store.folder.name else None
        if source is not None and _digest(_run_files(beside[origin], run_id, source.result)) == _digest(files):
            reference = f"{origin} {_digest(files)}\n".encode()
            runs[run_id] = {name: files[name] for name in files if name not in TRACES} | {REUSED: reference}
    path = store.folder / PACK
    runs |= _from_older_pack(path, runs.keys() | set(store.strays())) if path.is_file() else {}
    top = read_those(store.folder, (SWEEP, MANIFEST))
    top |= {f"{plugin_snapshots.PLUGINS}/{name}": text for name, text in plugin_snapshots.kept(store.folder).items()}
    members = {
        f"{RUNS}/{run_id}/{name}": files[name]
        for name in (RUN, LOG, REUSED, *TRACES)  # similar files side by side compress better
        for run_id, files in runs.items()
        if name in files
    }
    data = packed(top | members)
    write_atomically(path, data)
    return Packed(path=path, runs=len(runs), size_bytes=len(data), warnings=tuple(store.warnings))


def _ended_runs(store: Store) -> dict[str, Files]:
    """Return the packed files of each finished run.

    Runs with damaged files, and runs that are being written, are left out with a warning.
    """
    runs: dict[str, Files] = {}
    for run_id, record in store.records().items():
        folder = store.folder / RUNS / run_id
        try:
            files = _run_files(store, run_id, record.result)
        except UserError as fault:
            store.warnings += [f"{complaint}: the run is not packed" for complaint in fault.complaints]
            continue
        if RUN in files and read_those(folder, (RUN,)) == {RUN: files[RUN]}:
            runs[run_id] = files
        else:
            store.warnings.append(f"{folder} is being written and was skipped: pack again")
    return runs


def _origin(records: Mapping[str, Mapping[str, RunRecord]], name: str, run_id: str) -> str:
    """Return the sweep that made a run, by following `reused_from`."""
    seen = {name}
    while True:
        record = records.get(name, {}).get(run_id)
        source = record.reused_from if record is not None else None
        if source is None or source in seen or run_id not in records.get(source, {}):
            return name
        seen.add(source)
        name = source


def _from_older_pack(path: Path, excluded: Collection[str]) -> dict[str, Files]:
    """Return the runs of a pack without the excluded ids. Raises UserError."""
    try:
        missing = named(path) - set(excluded)
        return _read_pack(path, missing, short=True)[1] if missing else {}
    except UserError as fault:
        advice = "remove the pack to pack only the runs of the folder"
        raise UserError(*fault.complaints, advice) from fault


def unpack(path: Path) -> Restored:
    """Restore the files of a pack that its folder lacks. Nothing is overwritten.

    Raises UserError if the pack is damaged (before anything is written) or the folder is in use.
    """
    top, runs = _read_pack(path)
    folder, store = path.parent, Store(path.parent)
    with store.lock():
        stored = {run_id for run_id in store.ended() if is_record(folder / RUNS / run_id / RUN)}
        for path in (folder, *(folder / RUNS / run_id for run_id in runs)):
            remove_leftovers(path)
        for run_id, files in runs.items():
            if run_id not in stored:
                _write(below(folder, RUNS, run_id), files, RUN)
        plugin_snapshots.write(folder, {Path(name).name: text for name, text in top.items() if TEXT.fullmatch(name)})
        missing = [name for name in (SWEEP, MANIFEST) if name in top and not (folder / name).exists()]
        _write(folder, {name: top[name] for name in missing}, MANIFEST)
    return Restored(folder=folder, runs=len(runs.keys() - stored), kept=len(runs.keys() & stored))


def named(path: Path) -> set[str]:
    """Return the run ids in a pack. Only its beginning is read, since records come first. Raises UserError."""
    ids = set()
    with _damage_as_user_error(path):
        for name, _ in files_of(path):
            match = MEMBER.fullmatch(name)
            if match and match[2] != RUN:
                break
            ids |= {match[1]} if match else set()
    return ids


def _run_files(store: Store, run_id: str, result: Result | None = None) -> Files:
    """Return a run's files as they are packed. Raises UserError for every damaged trace."""
    store.traces(run_id, result)
    store.log(run_id)
    folder = store.folder / RUNS / run_id
    files = read_those(folder, (RUN, LOG))
    for name, content in read_those(folder, TRACES).items():
        try:
            files[name] = SHORT[name][0](content.decode("utf-8")).encode()
        except ValueError as fault:
            raise UserError(f"{folder / name}: {fault}") from fault
    return files


def _digest(files: Files) -> str:
    """Return the SHA-256 of the short forms of a run's traces."""
    return hashlib.sha256(b"".join(name.encode() + files[name] for name in TRACES if name in files)).hexdigest()


def _write(folder: Path, files: Files, last: str) -> None:
    """Write files to a folder. The file that makes the folder count is written last."""
    make_folder(folder)
    for name in sorted(files, key=last.__eq__):
        write_atomically(folder / name, files[name])


def _read_pack(path: Path, only: Collection[str] = (), *, short: bool = False) -> tuple[Files, dict[str, Files]]:
    """Return the files of the sweep's folder and of its runs (or `only` some). Raises UserError.

    With `short`, traces are returned in their short form, otherwise restored.
    """
    with _damage_as_user_error(path):
        top, runs = _sorted(dict(files_of(path)))
        runs = {run_id: files for run_id, files in runs.items() if run_id in only or not only}
        _check(top, runs)
        others: dict[str, Callable[[str], Files]] = {}
        for run_id, files in runs.items():
            if REUSED in files:
                files |= _reused(path.parent.parent, run_id, files.pop(REUSED).decode("utf-8"), others)
            traces = {name: SHORT[name][1](files[name].decode("utf-8")).encode() for name in TRACES if name in files}
            _check_stamps(run_id, files | traces)
            files |= {} if short else traces
    return top, runs


@contextlib.contextmanager
def _damage_as_user_error(path: Path) -> Iterator[None]:
    try:
        yield
    except (lzma.LZMAError, tarfile.TarError, EOFError, MemoryError, ValueError) as fault:
        raise UserError(
            f"{path} is damaged, nothing was restored: {str(fault) or 'it needs too much memory'}"
        ) from fault


def _sorted(members: Files) -> tuple[Files, dict[str, Files]]:
    """Split files into those of the sweep's folder and those of each run. Raises ValueError for any other file."""
    top: Files = {}
    runs: dict[str, Files] = {}
    for name, content in members.items():
        match = MEMBER.fullmatch(name)
        if name in (SWEEP, MANIFEST) or TEXT.fullmatch(name):
            top[name] = content
        elif match and match[2] in (RUN, LOG, REUSED, *TRACES):
            runs.setdefault(match[1], {})[match[2]] = content
        else:
            raise ValueError(f"unexpected file {name[:80]!r}")
    return top, runs


def _reused(out: Path, run_id: str, reference: str, others: dict[str, Callable[[str], Files]]) -> Files:
    """Return the short forms of traces from the pack or folder of another sweep. Raises ValueError."""
    name, _, digest = reference.strip().partition(" ")
    if not SAFE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of a sweep")
    if name not in others:
        if (out / name / PACK).is_file():
            packed_runs = _sorted(dict(files_of(out / name / PACK)))[1]
            others[name] = lambda wanted: packed_runs.get(wanted, {})
        else:
            others[name] = partial(_run_files, Store(out / name))
    files = others[name](run_id)
    if _digest(files) != digest:
        raise ValueError(f"the curve of {run_id} is stored in {out / name}, but missing there: add its pack")
    return {trace: files[trace] for trace in TRACES if trace in files}


def _check(top: Mapping[str, bytes], runs: Mapping[str, Files]) -> None:
    """Raise ValueError if the files would be invalid in a results folder."""
    if MANIFEST not in top:
        raise ValueError(f"missing {MANIFEST}")
    manifest.parse(top[MANIFEST].decode("utf-8"))
    changed = [name for name in top if TEXT.fullmatch(name) and not plugin_snapshots.fits(Path(name).name, top[name])]
    if changed:
        raise ValueError(f"the content of {changed[0]} does not match its name")
    for run_id, files in runs.items():
        if RUN not in files:
            raise ValueError(f"missing {RUN} of {run_id}")
        try:
            record = codec.record_from_json(files[RUN].decode("utf-8"))
        except UnknownRow:
            continue  # the run needs a plugin that is not loaded
        if record.run_id != run_id and not record.config.plugins():
            raise ValueError(f"the config of {run_id} belongs to {record.run_id}")


def _check_stamps(run_id: str, files: Files) -> None:
    """Raise ValueError if restored traces of a run do not match their stamps."""
    stamps = stamps_from(files[RUN].decode("utf-8"))
    for name, written in [(name, stamps[name]) for name in TRACES if name in stamps]:
        try:
            check(files.get(name, b""), written)
        except ValueError as fault:
            raise ValueError(f"{RUNS}/{run_id}/{name}: {fault}") from fault
