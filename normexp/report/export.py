"""Export the results of a sweep: LaTeX and Markdown tables, CSV and Parquet frames, and TensorBoard event files.

LaTeX tables need only booktabs, and user text is escaped. Event files have one folder per run, with its curves and,
for the HPARAMS tab, its keys. NaN and infinity are written as they are, and values that were not measured have no
event. The exception is the final loss of a run that became non-finite before its last step: it is written as infinity,
since TensorBoard does not compare runs without the metric. Event times start at 0 and advance by the run's mean time
per step.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from normexp.analysis import frames
from normexp.analysis.tables import TextTable, cell_table, pivot, reference_losses
from normexp.config.labels import shown
from normexp.config.plan import Pivot, Plan
from normexp.config.run import KEYS
from normexp.errors import UserError
from normexp.records.record import RunRecord, Status, Traces
from normexp.report import markdown
from normexp.report.contents import Report
from normexp.schemes.network_config import Value
from normexp.storage.codec import CURVE_COLUMNS
from normexp.storage.store import CURVE, LAYERS, Store

if TYPE_CHECKING:
    import pandas as pd

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "[": "{[}",  # after \\, a bracket or a star would start an argument
    "]": "{]}",
    "*": "{*}",
    "-": "{-}",  # two hyphens would become a dash
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "→": r"$\to$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "\N{REPLACEMENT CHARACTER}": "?",
} | {character: f"\\{character}" for character in "&%$#_{}"}
PACKAGES = r"\usepackage[T1]{fontenc} \usepackage{booktabs,textcomp}"
NAME = "events.out.tfevents.0.normexp"
FINAL = "final/val_loss"
LEARNED = "final/learned_fraction"
SCALARS = ("train_loss", "val_loss", "grad_norm", "lr")
READ = (CURVE, LAYERS)
"""The files of a run that events are read from."""
LATEX, MARKDOWN = "tables.tex", "tables.md"
Files = Iterable[tuple[str, bytes]]


def escape(text: str) -> str:
    """Escape text for one cell of a LaTeX table. Non-Latin letters need XeLaTeX or LuaLaTeX, and a font."""
    one_line = " ".join(shown(text).split())
    return re.sub("|".join(map(re.escape, SPECIAL)), lambda match: SPECIAL[match[0]], one_line)


def document(title: str, name: str, tables: Sequence[TextTable], references: str) -> str:
    """Return one `table` environment per table, to be included with \\input."""
    parts = [f"% {' '.join(shown(title).split())}\n% needs {PACKAGES}"]
    for number, table in enumerate(tables, 1):
        caption = ". ".join(filter(None, [title.rstrip("."), table.title, table.note.rstrip("."), references]))
        label = "tab:" + re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") + (f"-{number}" if len(tables) > 1 else "")
        parts.append(_environment(table, escape(caption), label))
    return "\n\n".join(parts) + "\n"


def _environment(table: TextTable, caption: str, label: str) -> str:
    lines = [
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{caption}}}",
        f"\\label{{{label}}}",
        f"\\begin{{tabular}}{{{'l' * len(table.header)}}}",
        r"\toprule",
        _row(table.header),
        r"\midrule",
        *map(_row, table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(escape, cells)) + r" \\"


def files(report: Report, store: Store) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the event files, run by run.

    Raises UserError if tensorboard is not installed or if files are damaged, before the first file is yielded.
    """
    try:
        from tensorboard.plugins.hparams import summary_v2 as hparams
    except ImportError as fault:
        raise UserError(f"--to tensorboard needs tensorboard ({fault}): pip install 'normexp[tensorboard]'") from fault
    _check(report, store)
    keys = varying(report.plan)
    columns = [hparams.HParam(name) for name in (*keys, "outcome")]
    metrics = [hparams.Metric(FINAL), hparams.Metric(LEARNED)]
    yield NAME, _encoded([(0.0, 0, hparams.hparams_config_pb(columns, metrics, time_created_secs=0.0))])
    for run_id, record in report.records.items():
        values: dict[str, Value] = {name: getattr(record.config, name) for name in keys}
        values["outcome"] = record.result_word
        hparams_event = hparams.hparams_pb(values, trial_id=run_id, start_time_secs=0.0)
        scalars = _scalars(record, store.traces(run_id, record.result, only=READ))
        yield f"{run_id}/{NAME}", _encoded([(0.0, 0, hparams_event), *scalars])


def _check(report: Report, store: Store) -> None:
    complaints: list[str] = []
    for run_id, record in report.records.items():
        try:
            store.traces(run_id, record.result, only=READ)
        except UserError as fault:
            complaints += fault.complaints
    if complaints:
        raise UserError(*complaints)


def varying(plan: Plan) -> list[str]:
    """Return the keys in which the runs differ."""
    configs = list(plan.configs.values())
    return [name for name in KEYS if len({getattr(config, name) for config in configs}) > 1]


def _scalars(record: RunRecord, traces: Traces) -> Iterator[tuple[float, int, Any]]:
    from tensorboard.compat.proto.summary_pb2 import Summary

    seconds_per_step = _seconds_per_step(record)

    def scalar(step: int, tag: str, value: float) -> tuple[float, int, Any]:
        return step * seconds_per_step, step, Summary(value=[Summary.Value(tag=tag, simple_value=value)])

    for row in traces.curve:
        for name in SCALARS:
            value = getattr(row, name)
            if value is not None:
                yield scalar(row.step, name, value)
    for signal in traces.layers:
        if (signal.part, signal.quantity) == ("stream", "rms"):
            yield scalar(signal.step, f"stream_rms/layer_{signal.layer:03}", signal.value)
    result = record.result
    if result is not None:
        final = math.inf if result.final_val_loss is None else result.final_val_loss
        yield scalar(result.steps_done, FINAL, final)
        yield scalar(result.steps_done, LEARNED, result.learned_fraction)


def _seconds_per_step(record: RunRecord) -> float:
    steps = record.result.steps_done if record.status is Status.DONE and record.result else 0
    return record.seconds.get("total", 0.0) / steps if steps else 0.0


def _encoded(events: list[tuple[float, int, Any]]) -> bytes:
    """Encode events, given as (seconds, step, summary), as an event file."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    buffer = io.BytesIO()
    write: Callable[[bytes], None] = RecordWriter(buffer).write
    write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())
    for seconds, step, summary in events:
        write(Event(wall_time=seconds, step=step, summary=summary).SerializeToString())
    return buffer.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """An export format. `files` yields relative names and contents; `single` is the name of a single output file."""

    help: str
    files: Callable[[Report, Store], Files]
    single: str = ""


def _tables(report: Report) -> Sequence[TextTable]:
    """Return the pivot tables; without a pivot, the first axis by the others; without axes, the single cell."""
    plan = report.plan
    axes = plan.cell_axes
    if plan.pivot is None and axes:
        columns = axes[1:] or ("norm" if axes[0] == "position" else "position",)
        return pivot(replace(plan, pivot=Pivot(rows=(axes[0],), columns=columns)), report.runs)
    return report.pivots or [cell_table(plan, report.summary)]


def _markdown(report: Report, store: Store) -> Files:
    blocks = [f"# {markdown.escape(report.plan.title or report.plan.name)}"]
    for table in _tables(report):
        blocks += [f"## {markdown.escape(table.title)}"] if table.title else []
        blocks += [markdown.table_text(table)] + ([markdown.escape(table.note)] if table.note else [])
    blocks += [markdown.escape(text) for text in [reference_losses(report.summary)] if text]
    yield MARKDOWN, ("\n\n".join(blocks) + "\n").encode()


def _latex(report: Report, store: Store) -> Files:
    plan, references = report.plan, reference_losses(report.summary)
    yield LATEX, document(plan.title or plan.name, plan.name, _tables(report), references).encode()


def _frames(report: Report, store: Store) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the names and frames of an export. Raises UserError for all damaged curves, before the first frame."""
    curves: list[dict[str, Any]] = []
    complaints: list[str] = []
    for run_id, record in report.records.items():
        try:
            curve = store.traces(run_id, record.result, only=(CURVE,)).curve
        except UserError as fault:
            complaints += fault.complaints
            continue
        curves += ({"run_id": run_id} | {name: getattr(row, name) for name in CURVE_COLUMNS} for row in curve)
    if complaints:
        raise UserError(*complaints)
    yield "points", frames.points(report.plan)
    yield "runs", report.runs
    yield "summary", report.summary
    yield "curves", frames.frame(curves, ["run_id", *CURVE_COLUMNS])


def _csv(report: Report, store: Store) -> Files:
    for name, frame in _frames(report, store):
        yield f"{name}.csv", frames.to_csv(frame).encode()


def _parquet(report: Report, store: Store) -> Files:
    for name, frame in _frames(report, store):
        buffer = io.BytesIO()
        try:
            frame.to_parquet(buffer, engine="pyarrow", index=False)
        except ImportError as fault:
            raise UserError("--to parquet needs pyarrow: pip install 'normexp[parquet]'") from fault
        yield f"{name}.parquet", buffer.getvalue()


EXPORTERS: Mapping[str, Exporter] = MappingProxyType(
    {
        "tensorboard": Exporter(help="event files, one folder per run, for tensorboard --logdir", files=files),
        "latex": Exporter(help="the tables as LaTeX, with booktabs", files=_latex, single=LATEX),
        "markdown": Exporter(help="the tables as Markdown", files=_markdown, single=MARKDOWN),
        "csv": Exporter(help="points, runs, summary and curves", files=_csv),
        "parquet": Exporter(help="points, runs, summary and curves, with column types", files=_parquet),
    }
)
"""Exporters by name."""


def exporter(name: str) -> Exporter:
    """Return the exporter of this name. Raises UserError for an unknown one."""
    if name not in EXPORTERS:
        raise UserError(f"--to {name}: choose one of {', '.join(EXPORTERS)}")
    return EXPORTERS[name]
