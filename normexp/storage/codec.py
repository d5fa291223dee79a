"""Records as text: strict JSON for run.json, CSV for curves and layer signals.

Strict JSON has no NaN and no infinity: such a number is null, and its kind is stored beside it under key + `_kind`.
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
SCHEMA = 1
"""Increased when the layout of run.json or manifest.json changes."""
FILES, CHECKSUM = "files", "sha256"
"""Keys of run.json besides those of a record: stamps of the run's other files by name, and its checksum."""
UNCHECKED = ("config", "numerics", CHECKSUM)
"""Keys that the checksum does not cover: the run id covers the config, and later versions may change the numerics."""
CURVE_COLUMNS = tuple(field.name for field in dataclasses.fields(CurveRow))
SIGNAL = tuple(field.name for field in dataclasses.fields(SignalRow))
WORDS = {int: "a 64-bit integer", float: "a number", bool: "true or false", str: "a string", NoneType: "null"}

_line = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


def to_json(value: Mapping[str, Any]) -> str:
    """Return strict JSON. Dataclasses become objects, NaN and infinities null with a kind."""
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def to_json_of_rows(value: Mapping[str, Any]) -> str:
    """Return the same JSON with one line per entry of a list or object: faster and shorter for many entries."""
    entries = (f" {_line(key)}: {_rows_of(item)}" for key, item in _plain(value).items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _rows_of(value: Any) -> str:
    if not value or not isinstance(value, dict | list):
        return _line(value)
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"  {_line(item)}" for item in value) + "\n ]"
    return "{\n" + ",\n".join(f"  {_line(key)}: {_line(item)}" for key, item in value.items()) + "\n }"


def from_json(text: str) -> dict[str, Any]:
    """Parse JSON written by `to_json`. Objects stay dicts. Raises ValueError unless it is one strict JSON object."""
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
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a JSON object has a duplicate key")
    kinds = {key for key in values if key.endswith(KIND) and values.get(key.removesuffix(KIND), 0) is None}
    if not kinds:
        return values
    plain = {key: item for key, item in values.items() if key not in kinds}
    return plain | {key.removesuffix(KIND): float(_text(values[key], key)) for key in kinds}


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key}: {str(value)[:40]} is not a string")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def record_to_json(record: RunRecord, files: Mapping[str, Any] | None = None) -> str:
    """Return a record as JSON, without traces, log and weights. With stamps of its `files`, a checksum is added."""
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    del fields["traces"], fields["log"], fields["weights"]
    data = {"schema": SCHEMA, "run_id": record.run_id} | fields
    if files is None:
        return to_json(data)
    data[FILES] = files
    return to_json(data | {CHECKSUM: _checksum(data)})


def record_from_json(text: str) -> RunRecord:
    """Parse a record. Raises ValueError if it is incomplete, damaged, or written by a newer version."""
    data = from_json(text)
    schema = typed(int, data.get("schema"), "schema")
    if schema > SCHEMA:
        raise ValueError(f"schema {schema} of a newer normexp version")
    record: RunRecord = typed(RunRecord, data | {"traces": None, "log": None, "weights": None}, "")
    _check(record)
    if CHECKSUM in data and data[CHECKSUM] != _checksum(data):
        raise ValueError("SHA-256 mismatch: the file was changed after it was written")
    return record


def _checksum(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the data of a run.json, independent of its formatting."""
    text = to_json_of_rows({name: value for name, value in data.items() if name not in UNCHECKED})
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _check(record: RunRecord) -> None:
    """Raise ValueError if parts of a record contradict each other. Readers of records rely on this."""
    result, verdict, done = record.result, record.verdict, record.status is Status.DONE
    if (result is not None) is not done or (verdict is not None) is not done:
        raise ValueError(f"status {record.status} {'without' if done else 'with'} result or verdict")
    if result is None or verdict is None:
        return
    if (verdict.outcome is Outcome.NONFINITE) is not (result.death is not None):
        raise ValueError(f"outcome {verdict.outcome} {'with' if result.death else 'without'} a death")
    if result.death is None and (result.final_val_loss is None or not math.isfinite(result.final_val_loss)):
        raise ValueError(f"outcome {verdict.outcome} without a final validation loss")
    references = (result.losses.floor, result.losses.guess, result.losses.bigram)
    if not all(map(math.isfinite, references)) or result.losses.floor == result.losses.guess:
        raise ValueError("reference losses are non-finite or leave no learnable gap")


def typed(kind: Any, value: Any, where: str) -> Any:
    """Convert JSON data to the type of a hint: objects to dataclasses or dicts, lists to tuples.

    Raises ValueError that names the position `where` in the data.
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
    """Return origin and arguments of a type hint, and whether it is a dataclass."""
    return get_origin(kind), get_args(kind), dataclasses.is_dataclass(kind)


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _object(kind: Any, data: Mapping[str, Any], where: str) -> Any:
    hints = _hints(kind)
    missing = [name for name in hints if name not in data]
    if missing:
        raise ValueError(f"{f'{where}: ' if where else ''}missing {', '.join(missing)}")
    return kind(**{name: typed(hint, data[name], f"{where}.{name}".lstrip(".")) for name, hint in hints.items()})


def _one_of(kinds: Sequence[Any], value: Any, where: str) -> Any:
    if type(value) in kinds and type(value) is not int:  # an int may have more than 64 bits
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
    expected = WORDS.get(kind, "a list" if get_origin(kind) is tuple else "an object")
    raise ValueError(f"{where}: {text} is not {expected}")


def curve_to_csv(curve: Iterable[CurveRow]) -> str:
    """Return curve.csv with one row per step. Empty cells were not measured; nan and inf are results."""
    return _csv(CURVE_COLUMNS, ([row.step, row.lr, row.train_loss, row.grad_norm, row.val_loss] for row in curve))


def curve_from_csv(text: str) -> list[CurveRow]:
    """Parse curve.csv. Raises ValueError with the line number."""
    return [CurveRow(step=int(row[0]), **_numbers(CURVE_COLUMNS[1:], row[1:])) for row in _rows(CURVE_COLUMNS, text)]


def signal_to_csv(rows: Iterable[SignalRow]) -> str:
    """Return layers.csv or death.csv with one row per measurement."""
    return _csv(SIGNAL, ([row.step, row.layer, row.part, row.quantity, row.value] for row in rows))


def signal_from_csv(text: str) -> list[SignalRow]:
    """Parse layers.csv or death.csv. Raises ValueError with the line number."""
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
            raise ValueError(f"line {reader.line_num} is incomplete: the file is truncated")
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error


def _numbers(names: Sequence[str], cells: Sequence[str]) -> dict[str, float | None]:
    return {name: float(cell) if cell else None for name, cell in zip(names, cells, strict=True)}
