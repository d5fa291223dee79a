"""A sweep as event files that TensorBoard reads: a folder a run, with its curve and, in the hparams tab, its keys.

A NaN or an infinity is written as such: TensorBoard marks it. What was not measured has no event, but for the final
loss of a run that died before its last step: it is infinite, since a run without a metric is not compared. Times are
steps at the run's own pace, from 0.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from typing import Any

from normexp.errors import UserError
from normexp.keys import Value
from normexp.plan import Plan
from normexp.record import RunRecord, Status, Traces
from normexp.results.store import CURVE, LAYERS, Store
from normexp.run import KEYS
from normexp.views.report import Report

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
