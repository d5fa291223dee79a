"""The only reader and writer of results/.

A run has ended when its run.json is there: it is written last. Everything outside of runs/, plugins/, sweep.yaml and
manifest.json is derived, and can be made again from them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from normexp.config.plan import Plan
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
"""The files of a run's traces, and what they are called there."""
SWEEP, MANIFEST, RUNS, FIGURES = "sweep.yaml", "manifest.json", "runs", "figures"
PACK = "runs.tar.xz"
TABLES = ("points.csv", "runs.csv", "timings.csv", "summary.csv", "summary.md", "collapse.md", "edge.csv", "edge.md")
DRAWN = ".figures"
"""Of which tables the figures are, and their names."""
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
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]*")


class Store:
    """A results folder. `warnings` tells what the last `records` could not use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder as its one driver, making it if need be.

        Raises UserError at once where another driver has it, or where it is not a folder of ours.
        """
        self._make()
        with driver_lock(self.folder):
            yield

    def check(self, plan: Plan, *, force: bool) -> None:
        """Raise UserError where `begin` would refuse the folder; nothing is written."""
        folder_checks.unwritable(self.folder)
        if self.folder.is_dir() and not self.ended():
            folder_checks.foreign(self.folder, OURS, MANIFEST, self._manifest)
        if not force:
            self._refuse_other_sweep(plan)

    def begin(self, plan: Plan, argv: Sequence[str], *, force: bool) -> None:
        """Take the folder for a plan: write sweep.yaml, manifest.json and plugins, remove what killed writers left.

        Raises UserError where the folder cannot be written, is not normexp's, or (without `force`) holds the runs
        of a sweep that shares none with the plan.
        """
        self._make()
        if not force:
            self._refuse_other_sweep(plan)
        with storage_errors(self.folder / RUNS, "make"):
            below(self.folder, RUNS).mkdir(exist_ok=True)
        for names in ((), (FIGURES,), *((RUNS, path.name) for path in (self.folder / RUNS).iterdir())):
            remove_leftovers(below(self.folder, *names))
        plugin_snapshots.keep(
            self.folder, (plan.whole or plan).configs.values()
        )  # the manifest of a shard names all runs
        write_atomically(self.folder / SWEEP, plan.source)
        write_atomically(self.folder / MANIFEST, manifest.manifest_json(plan, argv=argv, commit=git_commit()))

    def write(self, record: RunRecord) -> None:
        """Store a run that has ended, in place of any older record. Raises StorageError: it then counts as pending."""
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
            folder.mkdir(exist_ok=True)  # not its parents: where somebody has removed them, nothing is to be made
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
        """Write a table, a figure or a report, named relative to the folder. Raises StorageError."""
        path = below(self.folder, *Path(name).parts)
        with storage_errors(path.parent):
            path.parent.mkdir(exist_ok=True)
        write_atomically(path, content)

    def records(self) -> dict[str, RunRecord]:
        """Run id to record of the manifest's runs that have ended, without traces and logs, in order."""
        self.warnings, found = [], {}
        for run_id in manifest.run_ids(self._manifest()):
            record = self.record(run_id)
            if record is not None:
                found[run_id] = record
        return found

    def read(self, run_id: str) -> RunRecord | None:
        """One record with its traces and log; None where it has not ended. Raises UserError for a damaged trace."""
        record = self.record(run_id)
        return record and replace(record, traces=self.traces(run_id, record.result), log=self.log(run_id))

    def record(self, run_id: str) -> RunRecord | None:
        """One record without traces and log; None where it has not ended, or, with a warning, cannot be used."""
        path = self.folder / RUNS / run_id / RUN
        try:
            path = self._run_folder(run_id, RUN)
            record = codec.record_from_json(path.read_text("utf-8"))
            if record.run_id != run_id:
                changed = "; its plugin has changed" if record.config.plugins() else ""
                raise ValueError(f"its config is that of {record.run_id}{changed}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, NotFollowed) as error:
            advice = plugin_snapshots.advice(
                self.folder, error, ": the run counts as pending, and its sweep makes it again"
            )
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
        """Curve and layers: what the files `only` hold, empty where a run has none.

        Raises UserError for each of these files that is not as it was written, or contradicts `result`; `as_they_are`
        for those alone that cannot be read, or contradict it.
        """
        found, complaints = self._traces(run_id, result, only, {} if as_they_are else self._stamps(run_id))
        if complaints:
            raise UserError(*complaints)
        return found

    def sound_traces(
        self, run_id: str, result: Result | None = None, *, only: Collection[str] = tuple(TRACES)
    ) -> Traces:
        """As `traces`, but what a damaged file holds is left out, with a warning."""
        found, complaints = self._traces(run_id, result, only, self._stamps(run_id))
        self.warnings += [complaint for complaint in complaints if complaint not in self.warnings]
        return found

    def damaged(self, records: Mapping[str, RunRecord], *, thoroughly: bool = False) -> list[str]:
        """A line for each file of these runs that is missing or not of its size; `thoroughly`: or has other content."""
        return [fault for record in records.values() for fault in self._damaged(record, thoroughly=thoroughly)]

    def log(self, run_id: str) -> str:
        """What a run printed; a damaged log as it is, with a warning."""
        complaints = self._content(run_id, LOG, bytes, self._stamps(run_id))[1]
        self.warnings += [complaint for complaint in complaints if complaint not in self.warnings]
        path = self._run_folder(run_id, LOG)
        return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""

    def weights(self, run_id: str) -> tuple[Path, bytes | None]:
        """Where a run's trained weights are stored, and the file's bytes; None where there are none.

        Raises UserError where they are not what was written.
        """
        path = self._run_folder(run_id, WEIGHTS)
        with storage_errors(path, "read"):
            content = path.read_bytes() if path.is_file() else None
        written = self._stamps(run_id).get(WEIGHTS)
        if content is not None and written is not None:
            try:
                check(content, written)
            except ValueError as error:
                advice = "remove it, and run its sweep again with --save-weights"
                raise UserError(f"{path} is damaged: {error}: {advice}") from error
        return path, content

    def strays(self) -> list[str]:
        """Ids of stored runs that no point of the manifest asks for."""
        return sorted(self.ended() - set(manifest.run_ids(self._manifest())))

    def read_plan(self) -> Plan:
        """The plan, from manifest.json. Raises UserError where there is none, or a broken one."""
        found, sweep = self._manifest(), below(self.folder, SWEEP)
        try:
            return manifest.plan_of(found, sweep.read_bytes().decode("utf-8", "replace") if sweep.is_file() else "")
        except ValueError as error:
            advice = plugin_snapshots.advice(self.folder, error, ": run the sweep again")
            raise UserError(f"{self.folder / MANIFEST}: {error}{advice}") from error

    def has_weights(self, run_id: str) -> bool:
        """Whether a run's trained weights are stored, as long as their file says that they are."""
        return is_whole(self.folder / RUNS / run_id / WEIGHTS)

    def find_elsewhere(self, root: Path, run_id: str, *, weights: bool = False) -> Store | None:
        """Another sweep's folder under `root` that has this run, done, not outdated, with weights if asked for."""
        for folder in folders_in(root):
            other = Store(folder)
            there = other.has_weights(run_id) if weights else is_readable(folder / RUNS / run_id / RUN)
            if there and folder.resolve() != self.folder.resolve():
                record = other.record(run_id)
                if record is not None and record.usable:
                    return other
        return None

    def copy_from(self, other: Store, run_id: str, *, weights: bool = False) -> RunRecord:
        """Store another folder's record of a run here, marked `reused_from`, with its weights if asked for.

        Raises UserError where the record is not there or not whole, StorageError where it cannot be written.
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
        """What can be read of the files `only`, and a complaint for each that cannot."""
        found, complaints = {}, []
        for name in only:
            rows, faults = self._content(run_id, name, _parser(name, result, stamped=name in stamps), stamps)
            found[TRACES[name]] = [] if rows is None else rows
            complaints += faults
        return Traces(**{"curve": [], **found}), complaints

    def _content(
        self, run_id: str, name: str, parse: Callable[[bytes], Any], stamps: Mapping[str, Stamp]
    ) -> tuple[Any, list[str]]:
        """What a file of a run holds, None where there is none; and in place of a damaged one what is wrong with it."""
        written = stamps.get(name)
        try:
            path = self._run_folder(run_id, name)
            content = path.read_bytes()
            found = parse(content)
            if written is None:
                return found, []
            if not (written.rows and is_empty(content)):
                check(content, written)
                return found, []
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
            return None, [f"{path.parent} is being written at this moment: try again"]
        return None, [f"{fault}: {self._advice(path.parent)}"]

    def _advice(self, folder: Path) -> str:
        """What helps where a file of a run is damaged."""
        told = f"remove {folder}, and its sweep makes the run again"
        return f"{told}, or `normexp unpack` restores it" if is_readable(self.folder / PACK) else told

    def _damaged(self, record: RunRecord, *, thoroughly: bool) -> Iterator[str]:
        stamps = self._stamps(record.run_id)
        for name, written in stamps.items():
            path = self.folder / RUNS / record.run_id / name
            if name == WEIGHTS and not path.exists():  # a pack leaves them out
                continue
            try:
                if thoroughly:
                    check(path.read_bytes(), written)
                else:
                    check_size(path.stat().st_size, written)
            except (OSError, ValueError):
                yield from self._content(record.run_id, name, _parser(name, record.result), stamps)[1]

    def _stamps(self, run_id: str) -> dict[str, Stamp]:
        """The stamps of a run's files; none of a run of an older version, or whose record cannot be read."""
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
            advice = "" if isinstance(error, manifest.Newer) else ": run its sweep again, which writes the file anew"
            raise UserError(f"{path}: {error}{advice}") from error

    def exists(self) -> bool:
        """Whether this is a results folder, or one that this user may not look into."""
        try:
            return (self.folder / MANIFEST).is_file()
        except OSError:
            return True

    def ended(self) -> set[str]:
        """Ids of all stored runs; none of a folder that this user may not look into."""
        with contextlib.suppress(PermissionError):
            return {path.parent.name for path in (self.folder / RUNS).glob(f"*/{RUN}")}
        return set()

    def _make(self) -> None:
        """Make the folder, or refuse one with files that are not ours. Raises UserError."""
        with storage_errors(self.folder, "make"):
            self.folder.mkdir(parents=True, exist_ok=True)
        if not self.ended():
            folder_checks.foreign(self.folder, OURS, MANIFEST, self._manifest)

    def _refuse_other_sweep(self, plan: Plan) -> None:
        stored = self.ended()
        if stored and self.exists():
            folder_checks.other_sweep(self.folder, stored, lambda: self._manifest().runs, manifest.stored_form(plan))


def _parser(name: str, result: Result | None, *, stamped: bool = True) -> Callable[[bytes], Any]:
    """What makes rows of a file of traces; of any other, its bytes. It raises ValueError."""
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
