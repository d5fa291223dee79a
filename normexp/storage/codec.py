"""RunRecord to and from text: strict JSON for what is short, CSV for what is long.

Strict JSON, in which numbers that are not finite have a place.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from normexp.config.run import RunConfig, config_from
from normexp.records.record import CurveRow, Outcome, RunRecord, SignalRow, Status

KIND = "_kind"
"""JSON has no NaN and no infinity: such a number is null, and its kind stands beside it under key + KIND."""
_line = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


def to_json(value: Mapping[str, Any]) -> str:
    """Strict JSON; dataclasses become objects, NaN and infinities null with a kind."""
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def to_json_of_rows(value: Mapping[str, Any]) -> str:
    """The same JSON with each entry of a list or object in one line: quicker, and shorter where there are many."""
    entries = (f" {_line(key)}: {_rows_of(item)}" for key, item in _plain(value).items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _rows_of(value: Any) -> str:
    if not value or not isinstance(value, dict | list):
        return _line(value)
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"  {_line(item)}" for item in value) + "\n ]"
    return "{\n" + ",\n".join(f"  {_line(key)}: {_line(item)}" for key, item in value.items()) + "\n }"


def from_json(text: str) -> dict[str, Any]:
    """The reverse, but objects stay dicts. Raises ValueError for anything but one strict JSON object."""
    try:
        value = json.loads(text, object_pairs_hook=_restore, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _plain(value: Any) -> Any:
    if type(value) in (int, float, bool, str, NoneType):
        return value
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


def _restore(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise ValueError("a key stands twice in one JSON object")
    kinds = {key for key in read if key.endswith(KIND) and read.get(key.removesuffix(KIND), 0) is None}
    if not kinds:
        return read
    plain = {key: item for key, item in read.items() if key not in kinds}
    return plain | {key.removesuffix(KIND): float(_text(read[key], key)) for key in kinds}


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key}: {str(value)[:40]} is not a text")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


SCHEMA = 1
"""Raised when the layout of run.json or manifest.json changes."""

FILES, CHECKSUM = "files", "sha256"
"""Keys of run.json besides those of a record: stamps of the run's other files by name, and a checksum of it all."""
UNCHECKED = ("config", "numerics", CHECKSUM)
"""What the checksum is not of: a config has its run id, and a program may give other numerics to a record."""

CURVE_COLUMNS = tuple(field.name for field in dataclasses.fields(CurveRow))
SIGNAL = tuple(field.name for field in dataclasses.fields(SignalRow))


WORDS = {int: "a whole number of 64 bits", float: "a number", bool: "true or false", str: "a text", NoneType: "null"}


def record_to_json(record: RunRecord, files: Mapping[str, Any] | None = None) -> str:
    """All of a record but its traces, its log and its weights; with the stamps of its `files`, if they are given."""
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    del fields["traces"], fields["log"], fields["weights"]
    told = {"schema": SCHEMA, "run_id": record.run_id} | fields
    if files is None:
        return to_json(told)
    told[FILES] = files
    return to_json(told | {CHECKSUM: _checksum(told)})


def record_from_json(text: str) -> RunRecord:
    """Raises ValueError where the text is not a whole record that this program can read."""
    read = from_json(text)
    schema = typed(int, read.get("schema"), "schema")
    if schema > SCHEMA:
        raise ValueError(f"schema {schema} of a newer normexp")
    record: RunRecord = typed(RunRecord, read | {"traces": None, "log": None, "weights": None}, "")
    _check(record)
    if CHECKSUM in read and read[CHECKSUM] != _checksum(read):
        raise ValueError("its content is not what was written: its SHA-256 differs")
    return record


def _checksum(read: Mapping[str, Any]) -> str:
    """The SHA-256 of a run.json, as what it tells."""
    text = to_json_of_rows({name: value for name, value in read.items() if name not in UNCHECKED})
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _check(record: RunRecord) -> None:
    """Raise ValueError where the parts of a record contradict each other: what reads it relies on that."""
    result, verdict, done = record.result, record.verdict, record.status is Status.DONE
    if (result is not None) is not done or (verdict is not None) is not done:
        raise ValueError(f"a run that is {record.status} {'without' if done else 'with'} result or verdict")
    if result is None or verdict is None:
        return
    if (verdict.outcome is Outcome.NONFINITE) is not (result.death is not None):
        raise ValueError(f"outcome {verdict.outcome} {'with' if result.death else 'without'} a death")
    if result.death is None and (result.final_val_loss is None or not math.isfinite(result.final_val_loss)):
        raise ValueError(f"outcome {verdict.outcome} without a final validation loss")
    references = (result.losses.floor, result.losses.guess, result.losses.bigram)
    if not all(map(math.isfinite, references)) or result.losses.floor == result.losses.guess:
        raise ValueError("reference losses that are not finite, or leave nothing to learn")


def typed(kind: Any, value: Any, where: str) -> Any:
    """JSON data as what a type hint asks for: objects become dataclasses or dicts, lists tuples.

    Raises ValueError that names the place, `where`.
    """
    if kind is RunConfig:
        return config_from(typed(dict[str, Any], value, where))
    origin, arguments, is_object = _shape(kind)
    if is_object:
        return _object(kind, typed(dict[str, Any], value, where), where)
    if origin is UnionType:
        return _one_of(arguments, value, where)
    if origin in (dict, Mapping) and isinstance(value, dict):
        if arguments[1] is Any:
            return value
        return {key: typed(arguments[1], item, f"{where}.{key}".lstrip(".")) for key, item in value.items()}
    if origin in (tuple, Sequence) and isinstance(value, list):
        return tuple(typed(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    return value if kind is Any else _single(kind, value, where)


@functools.cache
def _shape(kind: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Origin and arguments of a type hint, and whether it is a dataclass."""
    return get_origin(kind), get_args(kind), dataclasses.is_dataclass(kind)


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _object(kind: Any, read: Mapping[str, Any], where: str) -> Any:
    hints = _hints(kind)
    missing = [name for name in hints if name not in read]
    if missing:
        raise ValueError(f"{where or 'it'} has no {', '.join(missing)}")
    return kind(**{name: typed(hint, read[name], f"{where}.{name}".lstrip(".")) for name, hint in hints.items()})


def _one_of(kinds: Sequence[Any], value: Any, where: str) -> Any:
    if type(value) in kinds and type(value) is not int:  # which may have more than 64 bits
        return value
    faults = []
    for kind in kinds:
        if kind is not NoneType:
            try:
                return typed(kind, value, where)
            except ValueError as fault:
                faults.append(fault)
    raise faults[-1]


def _single(kind: Any, value: Any, where: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as fault:
            raise ValueError(f"{where}: {fault}") from None
    if type(value) is int and not -(2**63) <= value < 2**63:
        kind = int if kind is float else kind
    elif kind is float and type(value) in (int, float):
        return float(value)
    elif type(value) is kind:
        return value
    text = repr(value)
    text = text if len(text) <= 40 else text[:40] + "..."
    raise ValueError(
        f"{where}: {text} is not {WORDS.get(kind, 'a list' if get_origin(kind) is tuple else 'an object')}"
    )


def curve_to_csv(curve: Iterable[CurveRow]) -> str:
    """One row an update; an empty cell was not measured, nan and inf were."""
    return _csv(CURVE_COLUMNS, ([row.step, row.lr, row.train_loss, row.grad_norm, row.val_loss] for row in curve))


def curve_from_csv(text: str) -> list[CurveRow]:
    """Raises ValueError with the line at fault."""
    return [CurveRow(step=int(row[0]), **_numbers(CURVE_COLUMNS[1:], row[1:])) for row in _rows(CURVE_COLUMNS, text)]


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
    try:
        if next(reader, None) != list(header):
            raise ValueError(f"line 1 is not {','.join(header)}")
        for row in reader:
            if len(row) != len(header):
                raise ValueError(f"line {reader.line_num} has {len(row)} cells, not {len(header)}")
            yield row
        if text and not text.endswith("\n"):
            raise ValueError(f"line {reader.line_num} has no end: the file was cut")
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error


def _numbers(names: Sequence[str], cells: Sequence[str]) -> dict[str, float | None]:
    return {name: float(cell) if cell else None for name, cell in zip(names, cells, strict=True)}
