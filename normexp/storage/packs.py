"""A sweep's runs in one small file, from which its folder is restored: to keep, to send, to go on elsewhere.

`runs.tar.xz` holds sweep.yaml, manifest.json, plugins, and of every run that its points ask for run.json and log.txt,
byte for byte, and its curve and layers in short form (`normexp.storage.compact`). Weights are left out.

Files in a .tar.xz and back, in memory: plain files alone, and no more than fit, whatever it claims to hold.
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
"""Tuned to digits; any xz reads them."""
MOST_BYTES = 2**31
"""Of what an archive unpacks to: a few kilobytes may claim to hold any number."""
MOST_FILES = 10**6


def packed(files: Mapping[str, bytes]) -> bytes:
    """An archive without times, owners or modes of this machine. Raises UserError for more than is unpacked again."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    if len(files) > MOST_FILES or buffer.tell() > MOST_BYTES:
        raise UserError(f"{len(files)} files of {buffer.tell() / 1e9:.1f} GB are too many for one pack")
    return lzma.compress(buffer.getvalue(), filters=FILTERS)


def files_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file, in order; only who comes to the end knows that the archive is whole.

    Raises StorageError where it cannot be read, and lzma.LZMAError, tarfile.TarError, EOFError, ValueError or
    MemoryError where it is damaged, too large, or holds anything but plain files.
    """
    with storage_errors(path, "read"), lzma.open(path) as stream:
        bounded = _Bounded(stream)
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for count, member in enumerate(tar, 1):
                content = tar.extractfile(member) if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None
                if content is None:
                    raise ValueError(f"{member.name[:80]!r} is no plain file")
                if count > MOST_FILES:
                    raise ValueError(f"it holds more than {MOST_FILES} files")
                yield member.name, content.read()
        while bounded.read(2**20):  # its end, where the checksum stands
            pass


class _Bounded(io.BufferedIOBase):
    """A stream that refuses to give more than MOST_BYTES."""

    def __init__(self, stream: lzma.LZMAFile) -> None:
        self._stream, self._left = stream, MOST_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        most = self._left + 1
        data = self._stream.read(most if size is None or size < 0 else min(size, most))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {MOST_BYTES / 1e9:.1f} GB")
        return data


SHORT: Mapping[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    CURVE: (compact.from_curve, compact.to_curve),
    LAYERS: (compact.from_layers, compact.to_layers),
    DEATH: (compact.from_layers, compact.to_layers),
}
"""Name to its short form, and back."""
TEXT = re.compile(rf"{plugin_snapshots.PLUGINS}/({plugin_snapshots.NAME.pattern})")
REUSED = "reused.txt"
"""In place of traces: the sweep beside this one that has them, and the SHA-256 of their short forms."""
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


def pack(store: Store, among: Sequence[Store] = ()) -> Packed:
    """Write a sweep's pack, in place of any older one; equal runs give equal bytes.

    Traces that came from a sweep of `among`, which stays beside this one, are told by its name alone. Runs of the older
    pack that the folder lacks stay in it. Raises UserError.
    """
    beside = {other.folder.name: other for other in among}
    records = {name: other.records() for name, other in beside.items()}
    runs = _run_by_run(store)
    for run_id, files in runs.items():
        origin = _origin(records, store.folder.name, run_id)
        source = records[origin][run_id] if origin != store.folder.name else None
        if source is not None and _digest(_run_files(beside[origin], run_id, source.result)) == _digest(files):
            told = f"{origin} {_digest(files)}\n".encode()
            runs[run_id] = {name: files[name] for name in files if name not in TRACES} | {REUSED: told}
    path = store.folder / PACK
    runs |= _of_older(path, runs.keys() | set(store.strays())) if path.is_file() else {}
    top = read_those(store.folder, (SWEEP, MANIFEST))
    top |= {f"{plugin_snapshots.PLUGINS}/{name}": text for name, text in plugin_snapshots.kept(store.folder).items()}
    members = {
        f"{RUNS}/{run_id}/{name}": files[name]
        for name in (RUN, LOG, REUSED, *TRACES)  # like beside like is smaller
        for run_id, files in runs.items()
        if name in files
    }
    data = packed(top | members)
    write_atomically(path, data)
    return Packed(path=path, runs=len(runs), size_bytes=len(data), warnings=tuple(store.warnings))


def _run_by_run(store: Store) -> dict[str, Files]:
    """What is packed of each run that has ended.

    Runs with a damaged file, and those that a driver writes at this moment, are left out with a warning.
    """
    runs: dict[str, Files] = {}
    for run_id, record in store.records().items():
        folder = store.folder / RUNS / run_id
        try:
            files = _run_files(store, run_id, record.result)
        except UserError as fault:
            store.warnings += [f"{complaint}: it is not packed" for complaint in fault.complaints]
            continue
        if RUN in files and read_those(folder, (RUN,)) == {RUN: files[RUN]}:
            runs[run_id] = files
        else:
            store.warnings.append(f"{folder} is being written, and was not read: pack again")
    return runs


def _origin(records: Mapping[str, Mapping[str, RunRecord]], name: str, run_id: str) -> str:
    """The sweep that made a run, as far as `reused_from` leads."""
    seen = {name}
    while True:
        record = records.get(name, {}).get(run_id)
        source = record.reused_from if record is not None else None
        if source is None or source in seen or run_id not in records.get(source, {}):
            return name
        seen.add(source)
        name = source


def _of_older(path: Path, others: Collection[str]) -> dict[str, Files]:
    """The runs of a pack without those of other ids. Raises UserError."""
    try:
        lacking = named(path) - set(others)
        return _parts(path, lacking, short=True)[1] if lacking else {}
    except UserError as fault:
        raise UserError(*fault.complaints, "remove it, and the folder is packed without what it alone holds") from fault


def unpack(path: Path) -> Restored:
    """Restore what a pack holds and its folder lacks: nothing there is overwritten.

    Raises UserError where the pack is damaged, before anything is written, and where the folder is in use.
    """
    top, runs = _parts(path)
    folder, store = path.parent, Store(path.parent)
    with store.lock():
        there = {run_id for run_id in store.ended() if is_record(folder / RUNS / run_id / RUN)}
        for path in (folder, *(folder / RUNS / run_id for run_id in runs)):
            remove_leftovers(path)
        for run_id, files in runs.items():
            if run_id not in there:
                _write(below(folder, RUNS, run_id), files, RUN)
        plugin_snapshots.write(folder, {Path(name).name: text for name, text in top.items() if TEXT.fullmatch(name)})
        missing = [name for name in (SWEEP, MANIFEST) if name in top and not (folder / name).exists()]
        _write(folder, {name: top[name] for name in missing}, MANIFEST)
    return Restored(folder=folder, runs=len(runs.keys() - there), kept=len(runs.keys() & there))


def named(path: Path) -> set[str]:
    """Ids of the runs that a pack holds; their records come before all else of them. Raises UserError."""
    found = set()
    with _intact(path):
        for name, _ in files_of(path):
            fits = MEMBER.fullmatch(name)
            if fits and fits[2] != RUN:
                break
            found |= {fits[1]} if fits else set()
    return found


def _run_files(store: Store, run_id: str, result: Result | None = None) -> Files:
    """A run's files as they are packed. Raises UserError for each trace that is not as it was written."""
    store.traces(run_id, result)
    store.log(run_id)
    folder = store.folder / RUNS / run_id
    found = read_those(folder, (RUN, LOG))
    for name, content in read_those(folder, TRACES).items():
        try:
            found[name] = SHORT[name][0](content.decode("utf-8")).encode()
        except ValueError as fault:
            raise UserError(f"{folder / name}: {fault}") from fault
    return found


def _digest(files: Files) -> str:
    """Of the short forms of a run's traces."""
    return hashlib.sha256(b"".join(name.encode() + files[name] for name in TRACES if name in files)).hexdigest()


def _write(folder: Path, files: Files, last: str) -> None:
    """The files of a folder; that with which it counts comes last."""
    make_folder(folder)
    for name in sorted(files, key=last.__eq__):
        write_atomically(folder / name, files[name])


def _parts(path: Path, only: Collection[str] = (), *, short: bool = False) -> tuple[Files, dict[str, Files]]:
    """Files of the folder itself, and of each run (or `only` these), as written or `short`. Raises UserError."""
    with _intact(path):
        top, runs = _sorted(dict(files_of(path)))
        runs = {run_id: files for run_id, files in runs.items() if run_id in only or not only}
        _check(top, runs)
        others: dict[str, Callable[[str], Files]] = {}
        for run_id, files in runs.items():
            if REUSED in files:
                files |= _reused(path.parent.parent, run_id, files.pop(REUSED).decode("utf-8"), others)
            whole = files | {
                name: SHORT[name][1](files[name].decode("utf-8")).encode() for name in TRACES if name in files
            }
            _check_stamps(run_id, whole)
            files |= {} if short else whole
    return top, runs


@contextlib.contextmanager
def _intact(path: Path) -> Iterator[None]:
    try:
        yield
    except (lzma.LZMAError, tarfile.TarError, EOFError, MemoryError, ValueError) as fault:
        raise UserError(
            f"{path} is damaged, and nothing of it was restored: {str(fault) or 'it needs too much memory'}"
        ) from fault


def _sorted(members: Files) -> tuple[Files, dict[str, Files]]:
    """The files of the folder itself, and those of each run. Raises ValueError for any other."""
    top: Files = {}
    runs: dict[str, Files] = {}
    for name, content in members.items():
        fits = MEMBER.fullmatch(name)
        if name in (SWEEP, MANIFEST) or TEXT.fullmatch(name):
            top[name] = content
        elif fits and fits[2] in (RUN, LOG, REUSED, *TRACES):
            runs.setdefault(fits[1], {})[fits[2]] = content
        else:
            raise ValueError(f"{name[:80]!r} has no place in it")
    return top, runs


def _reused(out: Path, run_id: str, told: str, others: dict[str, Callable[[str], Files]]) -> Files:
    """The short forms of traces that another sweep has, by its pack or else by its folder. Raises ValueError."""
    name, _, digest = told.strip().partition(" ")
    if not SAFE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is the name of no sweep")
    if name not in others:
        if (out / name / PACK).is_file():
            beside = _sorted(dict(files_of(out / name / PACK)))[1]
            others[name] = lambda wanted: beside.get(wanted, {})
        else:
            others[name] = partial(_run_files, Store(out / name))
    files = others[name](run_id)
    if _digest(files) != digest:
        raise ValueError(
            f"the curve of {run_id} is that of {out / name}, which has not got it: put its pack there, too"
        )
    return {trace: files[trace] for trace in TRACES if trace in files}


def _check(top: Mapping[str, bytes], runs: Mapping[str, Files]) -> None:
    """Raises ValueError where what is packed could not be read from a folder."""
    if MANIFEST not in top:
        raise ValueError(f"it lacks {MANIFEST}")
    manifest.parse(top[MANIFEST].decode("utf-8"))
    changed = [name for name in top if TEXT.fullmatch(name) and not plugin_snapshots.fits(Path(name).name, top[name])]
    if changed:
        raise ValueError(f"{changed[0]} is not the text of its name")
    for run_id, files in runs.items():
        if RUN not in files:
            raise ValueError(f"it lacks {RUN} of {run_id}")
        try:
            record = codec.record_from_json(files[RUN].decode("utf-8"))
        except UnknownRow:
            continue  # a run of a plugin that was not given
        if record.run_id != run_id and not record.config.plugins():
            raise ValueError(f"the config of {run_id} is that of {record.run_id}")


def _check_stamps(run_id: str, files: Files) -> None:
    """Raise ValueError where restored traces of a run are not those that were packed."""
    stamps = stamps_from(files[RUN].decode("utf-8"))
    for name, written in [(name, stamps[name]) for name in TRACES if name in stamps]:
        try:
            check(files.get(name, b""), written)
        except ValueError as fault:
            raise ValueError(f"{RUNS}/{run_id}/{name}: {fault}") from fault
