"""RunRecord to and from text: strict JSON for what is short, CSV for what is long."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from normexp.keys import Value
from normexp.record import CurveRow, Death, Losses, Outcome, Result, RunRecord, SignalRow, Status, Verdict
from normexp.run import KEYS, RunConfig

SCHEMA = 1
"""Raised when the layout of run.json or manifest.json changes."""

KIND = "_kind"
"""JSON has no NaN and no infinity: such a number is null, and its kind stands beside it under key + KIND."""

CURVE = tuple(field.name for field in dataclasses.fields(CurveRow))
SIGNAL = tuple(field.name for field in dataclasses.fields(SignalRow))


def to_json(value: Mapping[str, Any]) -> str:
    """Strict JSON; dataclasses become objects, NaN and infinities null with a kind."""
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def from_json(text: str) -> dict[str, Any]:
    """The reverse, but objects stay dicts. Raises ValueError for anything but one strict JSON object."""
    value = json.loads(text, object_hook=_restore, parse_constant=_refuse)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for key, item in value.items():
            special = isinstance(item, float) and not math.isfinite(item)
            plain[key] = None if special else _plain(item)
            if special:
                plain[key + KIND] = repr(float(item))
        return plain
    if isinstance(value, Enum):
        return value.value
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _restore(read: dict[str, Any]) -> dict[str, Any]:
    kinds = {key for key in read if key.endswith(KIND) and read.get(key.removesuffix(KIND), 0) is None}
    if not kinds:
        return read
    plain = {key: item for key, item in read.items() if key not in kinds}
    return plain | {key.removesuffix(KIND): float(read[key]) for key in kinds}


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def config_from(stored: Mapping[str, Any]) -> RunConfig:
    """A stored config; keys younger than it take their neutral value. Raises ValueError for unknown keys."""
    unknown = sorted(set(stored) - set(KEYS))
    if unknown:
        raise ValueError(f"unknown keys {', '.join(unknown)}: written by a newer normexp?")
    values: dict[str, Value] = {name: stored.get(name, key.neutral) for name, key in KEYS.items()}
    return RunConfig(**values)  # type: ignore[arg-type]


def record_to_json(record: RunRecord) -> str:
    """All of a record but its traces and its log."""
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    del fields["traces"], fields["log"]
    return to_json({"schema": SCHEMA, "run_id": record.run_id} | fields)


def record_from_json(text: str) -> RunRecord:
    """Raises ValueError where the text is not a whole record that this program can read."""
    try:
        return _record(from_json(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a run record: {type(error).__name__} {error}") from error


def _record(read: dict[str, Any]) -> RunRecord:
    if read["schema"] > SCHEMA:
        raise ValueError(f"schema {read['schema']} of a newer normexp")
    status = Status(read["status"])
    result, verdict = read["result"], read["verdict"]
    if status is Status.DONE and (result is None or verdict is None):
        raise ValueError("a done run without result or verdict")
    return RunRecord(
        config=config_from(read["config"]),
        status=status,
        result=None if result is None else _result(result),
        verdict=None if verdict is None else Verdict(**verdict | {"outcome": Outcome(verdict["outcome"])}),
        error=read["error"],
        seconds=read["seconds"],
        environment=read["environment"],
        numerics=read["numerics"],
        reused_from=read["reused_from"],
    )


def _result(read: dict[str, Any]) -> Result:
    death = read["death"]
    parts = {"losses": Losses(**read["losses"]), "death": None if death is None else Death(**death)}
    return Result(**read | parts)


def curve_to_csv(curve: Iterable[CurveRow]) -> str:
    """One row an update; an empty cell was not measured, nan and inf were."""
    return _csv(CURVE, ([row.step, row.lr, row.train_loss, row.grad_norm, row.val_loss] for row in curve))


def curve_from_csv(text: str) -> list[CurveRow]:
    """Raises ValueError with the line at fault."""
    return [CurveRow(step=int(row[0]), **_numbers(CURVE[1:], row[1:])) for row in _rows(CURVE, text)]


def signal_to_csv(rows: Iterable[SignalRow]) -> str:
    """One row a measurement, as in layers.csv and death.csv."""
    return _csv(SIGNAL, ([row.step, row.layer, row.part, row.quantity, row.value] for row in rows))


def signal_from_csv(text: str) -> list[SignalRow]:
    """Raises ValueError with the line at fault."""
    return [
        SignalRow(step=int(step), layer=int(layer), part=part, quantity=quantity, value=float(value))
        for step, layer, part, quantity, value in _rows(SIGNAL, text)
    ]


def _csv(header: Sequence[str], rows: Iterable[Sequence[int | float | str | None]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([repr(float(cell)) if isinstance(cell, float) else cell for cell in row] for row in rows)
    return buffer.getvalue()


def _rows(header: Sequence[str], text: str) -> Iterable[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    if next(reader, None) != list(header):
        raise ValueError(f"line 1 is not {','.join(header)}")
    for row in reader:
        if len(row) != len(header):
            raise ValueError(f"line {reader.line_num} has {len(row)} cells, not {len(header)}")
        yield row


def _numbers(names: Sequence[str], cells: Sequence[str]) -> dict[str, float | None]:
    return {name: float(cell) if cell else None for name, cell in zip(names, cells, strict=True)}
