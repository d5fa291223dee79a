"""Read and write the results folder of a sweep.

run.json is written last: a run has ended if it exists. Everything except runs/, plugins/, sweep.yaml and manifest.json
is derived and can be rebuilt from them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from normexp.config.plan import Plan
from normexp.config.run import UnknownRow
from normexp.errors import UserError
from normexp.records.record import CurveRow, Result, RunRecord, SignalRow, Status, Traces
from normexp.storage import codec, compact, folder_checks, manifest, plugin_snapshots
from normexp.storage import files as reportfiles
from normexp.storage.files import (
    NotFollowed,
    StorageError,
    below,
    folders_in,
    is_readable,
    remove_leftovers,
    storage_errors,
    sync_folder,
    write_atomically,
)
from normexp.storage.folder_checks import (
    Stamp,
    check,
    check_size,
    check_unstamped,
    is_empty,
    is_whole,
    stamp,
    stamps_from,
    whole_curve,
)
from normexp.storage.lock import HOLDER, LOCK, driver_lock
from normexp.storage.manifest import git_commit

__all__ = ["StorageError", "Store"]

RUN, CURVE, LAYERS, DEATH, LOG = "run.json", "curve.csv", "layers.csv", "death.csv", "log.txt"
WEIGHTS = "weights.safetensors"
TRACES: Mapping[str, str] = MappingProxyType({CURVE: "curve", LAYERS: "layers", DEATH: "death_layers"})
"""Files of a run's traces, and the fields of `Traces` that they contain."""
SWEEP, MANIFEST, RUNS, FIGURES = "sweep.yaml", "manifest.json", "runs", "figures"
PACK = "runs.tar.xz"
TABLES = ("points.csv", "runs.csv", "timings.csv", "summary.csv", "summary.md", "collapse.md", "edge.csv", "edge.md")
DRAWN = ".figures"
"""Digests of the tables that the figures show, and of the figures."""
OURS = {
    SWEEP,
    MANIFEST,
    RUNS,
    plugin_snapshots.PLUGINS,
    FIGURES,
    *TABLES,
    reportfiles.WEBPAGE,
    PACK,
    LOCK,
    HOLDER,
    DRAWN,
}
T = TypeVar("T")
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]*")


class Store:
    """The results folder of a sweep. `warnings` lists what the last call of `records` could not use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Create the folder if needed and lock it.

        Raises UserError immediately if another process has locked it, or if it contains other files.
        """
        self._make()
        with driver_lock(self.folder):
            yield

    def check(self, plan: Plan, *, force: bool) -> None:
        """Raise UserError if `begin` would refuse the folder. Nothing is written."""
        folder_checks.unwritable(self.folder)
        if self.folder.is_dir() and not self.ended():
            folder_checks.foreign(self.folder, OURS, MANIFEST, self._manifest)
        if not force:
            self._refuse_other_sweep(plan)

    def begin(self, plan: Plan, argv: Sequence[str], *, force: bool) -> None:
        """Prepare the folder for a plan: write sweep.yaml, manifest.json and plugins, and remove temporary files.

        Raises UserError if the folder cannot be written, contains other files, or (without `force`) contains the runs
        of a sweep that shares none with the plan.
        """
        self._make()
        if not force:
            self._refuse_other_sweep(plan)
        with storage_errors(self.folder / RUNS, "make"):
            below(self.folder, RUNS).mkdir(exist_ok=True)
        for names in ((), (FIGURES,), *((RUNS, path.name) for path in (self.folder / RUNS).iterdir())):
            remove_leftovers(below(self.folder, *names))
        # The manifest of a shard contains all runs of the sweep.
        plugin_snapshots.keep(self.folder, (plan.whole or plan).configs.values())
        plugin_snapshots.approve(plan.plugins)
        write_atomically(self.folder / SWEEP, plan.source)
        write_atomically(self.folder / MANIFEST, manifest.manifest_json(plan, argv=argv, commit=git_commit()))

    def write(self, record: RunRecord) -> None:
        """Store a finished run, replacing an older record. After a StorageError, the run counts as pending."""
        folder = self._run_folder(record.run_id)
        traces = record.traces or Traces(curve=())
        curve = codec.curve_to_csv(traces.curve).encode()
        files = {
            CURVE: curve,
            LAYERS: codec.signal_to_csv(traces.layers).encode(),
            DEATH: codec.signal_to_csv(traces.death_layers).encode() if traces.death_layers else None,
            LOG: ((record.error or "") if record.log is None else record.log).encode("utf-8", "backslashreplace"),
            WEIGHTS: record.weights,
        }
        stamps = {
            name: stamp(content, compact.without_norms(curve) if name == CURVE else None, table=name in TRACES)
            for name, content in files.items()
            if content is not None
        }
        text = codec.record_to_json(record, stamps)
        with storage_errors(folder):
            folder.mkdir(exist_ok=True)  # not its parents: if they were removed, nothing must be written
            (folder / RUN).unlink(missing_ok=True)
            sync_folder(folder)
        for name, content in files.items():
            if content is not None:
                write_atomically(folder / name, content)
            else:
                with storage_errors(folder / name, "remove"):
                    (folder / name).unlink(missing_ok=True)
        write_atomically(folder / RUN, text)

    def write_derived(self, name: str, content: str | bytes) -> None:
        """Write a table, figure or report. `name` is relative to the folder. Raises StorageError."""
        path = below(self.folder, *Path(name).parts)
        with storage_errors(path.parent):
            path.parent.mkdir(exist_ok=True)
        write_atomically(path, content)

    def records(self) -> dict[str, RunRecord]:
        """Return the records of the sweep's finished runs by run id, in its order, without traces and logs."""
        self.warnings, records = [], {}
        for run_id in manifest.run_ids(self._manifest()):
            record = self.record(run_id)
            if record is not None:
                records[run_id] = record
        return records

    def read(self, run_id: str) -> RunRecord | None:
        """Return a record with traces and log; None if the run has not ended. Raises UserError for damaged traces."""
        record = self.record(run_id)
        return record and replace(record, traces=self.traces(run_id, record.result), log=self.log(run_id))

    def record(self, run_id: str) -> RunRecord | None:
        """Return a record without traces and log; None if the run has not ended or (with a warning) cannot be used."""
        path = self.folder / RUNS / run_id / RUN
        try:
            path = self._run_folder(run_id, RUN)
            text = path.read_text("utf-8")
            record = self._with_plugins(lambda: codec.record_from_json(text))
            if record.run_id != run_id:
                changed = "; its plugin has changed" if record.config.plugins() else ""
                raise ValueError(f"its config belongs to {record.run_id}{changed}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, NotFollowed) as error:
            otherwise = ": the run counts as pending; rerun the sweep to repeat it"
            advice = plugin_snapshots.advice(self.folder, error, otherwise)
            self.warnings.append(f"{path} cannot be used ({error}){advice}")
            return None
        return record

    def traces(
        self,
        run_id: str,
        result: Result | None = None,
        *,
        only: Collection[str] = tuple(TRACES),
        as_they_are: bool = False,
    ) -> Traces:
        """Return curve and layers from the files `only`; empty for missing files.

        Raises UserError for every damaged file and for a curve that contradicts `result`. With `as_they_are`, changed
        files are accepted as long as they can be read and do not contradict it.
        """
        traces, complaints = self._traces(run_id, result, only, {} if as_they_are else self._stamps(run_id))
        if complaints:
            raise UserError(*complaints)
        return traces

    def sound_traces(
        self, run_id: str, result: Result | None = None, *, only: Collection[str] = tuple(TRACES)
    ) -> Traces:
        """Return traces like `traces`, but leave out damaged files, with a warning."""
        traces, complaints = self._traces(run_id, result, only, self._stamps(run_id))
        self.warnings += [complaint for complaint in complaints if complaint not in self.warnings]
        return traces

    def damaged(self, records: Mapping[str, RunRecord], *, thoroughly: bool = False) -> list[str]:
        """Return a line for each file that is missing or has a wrong size or, if `thoroughly`, a wrong content."""
        return [fault for record in records.values() for fault in self._damaged(record, thoroughly=thoroughly)]

    def log(self, run_id: str) -> str:
        """Return the output of a run. A damaged log is returned with a warning."""
        complaints = self._content(run_id, LOG, bytes, self._stamps(run_id))[1]
        self.warnings += [complaint for complaint in complaints if complaint not in self.warnings]
        path = self._run_folder(run_id, LOG)
        return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""

    def weights(self, run_id: str) -> tuple[Path, bytes | None]:
        """Return the path of a run's trained weights, and their bytes or None if there are none.

        Raises UserError if the file is damaged.
        """
        path = self._run_folder(run_id, WEIGHTS)
        with storage_errors(path, "read"):
            content = path.read_bytes() if path.is_file() else None
        written = self._stamps(run_id).get(WEIGHTS)
        if content is not None and written is not None:
            try:
                check(content, written)
            except ValueError as error:
                advice = "remove it, and rerun its sweep with --save-weights"
                raise UserError(f"{path} is damaged: {error}: {advice}") from error
        return path, content

    def strays(self) -> list[str]:
        """Return the ids of orphaned runs: stored, but not part of the sweep."""
        return sorted(self.ended() - set(manifest.run_ids(self._manifest())))

    def read_plan(self) -> Plan:
        """Return the plan in manifest.json. Raises UserError if it is missing or damaged."""
        stored, sweep = self._manifest(), below(self.folder, SWEEP)
        try:
            source = sweep.read_bytes().decode("utf-8", "replace") if sweep.is_file() else ""
            return self._with_plugins(lambda: manifest.plan_of(stored, source))
        except ValueError as error:
            advice = plugin_snapshots.advice(self.folder, error, ": rerun the sweep")
            raise UserError(f"{self.folder / MANIFEST}: {error}{advice}") from error

    def has_weights(self, run_id: str) -> bool:
        """Return whether a run's weights file exists and has the size that its header implies."""
        return is_whole(self.folder / RUNS / run_id / WEIGHTS)

    def find_elsewhere(self, root: Path, run_id: str, *, weights: bool = False) -> Store | None:
        """Return another sweep under `root` in which this run is done and not outdated, if needed with `weights`."""
        for folder in folders_in(root):
            other = Store(folder)
            exists = other.has_weights(run_id) if weights else is_readable(folder / RUNS / run_id / RUN)
            if exists and folder.resolve() != self.folder.resolve():
                record = other.record(run_id)
                if record is not None and record.usable:
                    return other
        return None

    def copy_from(self, other: Store, run_id: str, *, weights: bool = False) -> RunRecord:
        """Copy a run from another folder, marked `reused_from`, if needed with `weights`. Return its record.

        Raises UserError if the run is missing or damaged there, StorageError if it cannot be written.
        """
        record = other.record(run_id)
        if record is None:
            raise UserError(f"{other.folder} has no record of {run_id}")
        traces = other.traces(run_id, record.result)
        if record.status is Status.DONE and not traces.curve:
            raise UserError(f"{other._run_folder(run_id, CURVE)} is missing or empty: the run cannot be reused")
        record = replace(record, traces=traces, log=other.log(run_id), reused_from=other.folder.name)
        self.write(replace(record, weights=other.weights(run_id)[1] if weights else None))
        return record

    def _run_folder(self, run_id: str, *names: str) -> Path:
        if not SAFE.fullmatch(run_id):
            raise UserError(f"{run_id!r} is not a run id")
        return below(self.folder, RUNS, run_id, *names)

    def _traces(
        self, run_id: str, result: Result | None, only: Collection[str], stamps: Mapping[str, Stamp]
    ) -> tuple[Traces, list[str]]:
        """Return the traces in the files `only`, and a complaint for each damaged file."""
        rows_by_field, complaints = {}, []
        for name in only:
            rows, faults = self._content(run_id, name, _parser(name, result, stamped=name in stamps), stamps)
            rows_by_field[TRACES[name]] = [] if rows is None else rows
            complaints += faults
        return Traces(**{"curve": [], **rows_by_field}), complaints

    def _content(
        self, run_id: str, name: str, parse: Callable[[bytes], Any], stamps: Mapping[str, Stamp]
    ) -> tuple[Any, list[str]]:
        """Return the parsed content of a run's file and no complaints, or None and complaints if it is damaged.

        A file that is missing and has no stamp gives None without complaints.
        """
        written = stamps.get(name)
        try:
            path = self._run_folder(run_id, name)
            content = path.read_bytes()
            parsed = parse(content)
            if written is None:
                return parsed, []
            if not (written.rows and is_empty(content)):
                check(content, written)
                return parsed, []
            fault = f"{path} is missing or empty"
        except FileNotFoundError:
            if written is None:
                return None, []
            fault = f"{path} is missing or empty"
        except NotFollowed as error:
            return None, list(error.complaints)
        except (OSError, ValueError) as error:
            fault = f"{path}: {error}"
        if stamps and self._stamps(run_id) != stamps:
            return None, [f"{path.parent} is being written: try again"]
        return None, [f"{fault}: {self._advice(path.parent)}"]

    def _advice(self, folder: Path) -> str:
        """Return what to do about a damaged file of a run."""
        restore = ", or restore it with `normexp unpack`" if is_readable(self.folder / PACK) else ""
        return f"remove {folder}, then rerun the sweep{restore}"

    def _damaged(self, record: RunRecord, *, thoroughly: bool) -> Iterator[str]:
        stamps = self._stamps(record.run_id)
        for name, written in stamps.items():
            path = self.folder / RUNS / record.run_id / name
            if name == WEIGHTS and not path.exists():  # packs leave weights out
                continue
            try:
                if thoroughly:
                    check(path.read_bytes(), written)
                else:
                    check_size(path.stat().st_size, written)
            except (OSError, ValueError):
                yield from self._content(record.run_id, name, _parser(name, record.result), stamps)[1]

    def _stamps(self, run_id: str) -> dict[str, Stamp]:
        """Return the stamps of a run's files; none if its record is unreadable or of an older version."""
        try:
            return stamps_from(self._run_folder(run_id, RUN).read_text("utf-8"))
        except (OSError, ValueError, NotFollowed):
            return {}

    def _manifest(self) -> manifest.Manifest:
        path = below(self.folder, MANIFEST)
        try:
            return manifest.parse(path.read_text("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(folder_checks.no_sweep(self.folder, MANIFEST, PACK)) from None
        except (OSError, ValueError) as error:
            advice = "" if isinstance(error, manifest.Newer) else ": rerun its sweep to restore the file"
            raise UserError(f"{path}: {error}{advice}") from error

    def _with_plugins(self, read: Callable[[], T]) -> T:
        """Return what is read. If that needs plugins, load those that the sweep's config names, and read again."""
        try:
            return read()
        except UnknownRow:
            if not plugin_snapshots.load_named(self.folder, self._manifest().plugins):
                raise
            return read()

    def exists(self) -> bool:
        """Return whether the folder is a sweep's; also True if it cannot be read."""
        try:
            return (self.folder / MANIFEST).is_file()
        except OSError:
            return True

    def ended(self) -> set[str]:
        """Return the ids of all finished runs in the folder; none if it cannot be read."""
        with contextlib.suppress(PermissionError):
            return {path.parent.name for path in (self.folder / RUNS).glob(f"*/{RUN}")}
        return set()

    def _make(self) -> None:
        """Create the folder. Raises UserError if it exists and contains other files."""
        with storage_errors(self.folder, "make"):
            self.folder.mkdir(parents=True, exist_ok=True)
        if not self.ended():
            folder_checks.foreign(self.folder, OURS, MANIFEST, self._manifest)

    def _refuse_other_sweep(self, plan: Plan) -> None:
        stored = self.ended()
        if stored and self.exists():
            folder_checks.other_sweep(self.folder, stored, lambda: self._manifest().runs, manifest.stored_form(plan))


def _parser(name: str, result: Result | None, *, stamped: bool = True) -> Callable[[bytes], Any]:
    """Return a function that parses a file of traces and raises ValueError. Other files are returned as bytes."""
    if name not in TRACES:
        return bytes

    def parse(content: bytes) -> Sequence[CurveRow] | Sequence[SignalRow]:
        text = content.decode("utf-8")
        if name != CURVE:
            return codec.signal_from_csv(text)
        curve = whole_curve(result, text)
        if not stamped:
            check_unstamped(result, curve)
        return curve

    return parse
