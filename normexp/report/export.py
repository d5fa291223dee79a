"""The table of exporters: a sweep's results in the forms of other programs.

Tables in LaTeX: booktabs and nothing else; what users wrote is escaped, outcomes and k of n stay in the cells.

A sweep as event files that TensorBoard reads: a folder a run, with its curve and, in the hparams tab, its keys.

A NaN or an infinity is written as such: TensorBoard marks it. What was not measured has no event, but for the final
loss of a run that died before its last step: it is infinite, since a run without a metric is not compared. Times are
steps at the run's own pace, from 0.
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
    "[": "{[}",  # after \\ it would begin an argument, as would a star
    "]": "{]}",
    "*": "{*}",
    "-": "{-}",  # two would become a dash
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


def escape(text: str) -> str:
    """Text that LaTeX sets as it is, in one cell. Letters beyond Latin need XeLaTeX or LuaLaTeX, and a font."""
    one_line = " ".join(shown(text).split())
    return re.sub("|".join(map(re.escape, SPECIAL)), lambda found: SPECIAL[found[0]], one_line)


def document(title: str, name: str, tables: Sequence[TextTable], references: str) -> str:
    """One `table` environment for each table, to be put into a text with \\input."""
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


NAME = "events.out.tfevents.0.normexp"
FINAL = "final/val_loss"
LEARNED = "final/learned_fraction"
SCALARS = ("train_loss", "val_loss", "grad_norm", "lr")
READ = (CURVE, LAYERS)
"""The files of a run from which events come."""


def files(report: Report, store: Store) -> Iterator[tuple[str, bytes]]:
    """Names and contents, run by run.

    Raises UserError where tensorboard is not installed, and for all files that are damaged, before the first content.
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
        told: dict[str, Value] = {name: getattr(record.config, name) for name in keys}
        told["outcome"] = record.result_word
        began = hparams.hparams_pb(told, trial_id=run_id, start_time_secs=0.0)
        yield (
            f"{run_id}/{NAME}",
            _encoded([(0.0, 0, began), *_scalars(record, store.traces(run_id, record.result, only=READ))]),
        )


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
    """The keys in which the runs differ."""
    configs = list(plan.configs.values())
    return [name for name in KEYS if len({getattr(config, name) for config in configs}) > 1]


def _scalars(record: RunRecord, traces: Traces) -> Iterator[tuple[float, int, Any]]:
    from tensorboard.compat.proto.summary_pb2 import Summary

    pace = _seconds_per_step(record)

    def scalar(step: int, tag: str, value: float) -> tuple[float, int, Any]:
        return step * pace, step, Summary(value=[Summary.Value(tag=tag, simple_value=value)])

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
    """An event file of (seconds, step, summary)."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    buffer = io.BytesIO()
    write: Callable[[bytes], None] = RecordWriter(buffer).write
    write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())
    for seconds, step, summary in events:
        write(Event(wall_time=seconds, step=step, summary=summary).SerializeToString())
    return buffer.getvalue()


LATEX, MARKDOWN = "tables.tex", "tables.md"
Files = Iterable[tuple[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """A row. `files` gives names, relative to a folder, and contents; `single` is the name where it is one file."""

    help: str
    files: Callable[[Report, Store], Files]
    single: str = ""


def _tables(report: Report) -> Sequence[TextTable]:
    """The pivot; without one, the first axis by the others; without an axis, the one cell."""
    plan = report.plan
    axes = plan.cell_axes
    if plan.pivot is None and axes:
        beside = axes[1:] or ("norm" if axes[0] == "position" else "position",)
        return pivot(replace(plan, pivot=Pivot(rows=(axes[0],), columns=beside)), report.runs)
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
    """Raises UserError for every curve that is damaged, before the first frame."""
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
        "tensorboard": Exporter(help="event files, a folder a run, for tensorboard --logdir", files=files),
        "latex": Exporter(help="the printed tables for a paper, with booktabs", files=_latex, single=LATEX),
        "markdown": Exporter(help="the printed tables", files=_markdown, single=MARKDOWN),
        "csv": Exporter(help="points, runs, summary and curves", files=_csv),
        "parquet": Exporter(help="points, runs, summary and curves, with their types", files=_parquet),
    }
)
"""By name."""


def exporter(name: str) -> Exporter:
    """A row. Raises UserError."""
    if name not in EXPORTERS:
        raise UserError(f"--to {name}: there are {', '.join(EXPORTERS)}")
    return EXPORTERS[name]
