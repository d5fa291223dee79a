"""Strict JSON, in which numbers that are not finite have a place."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from types import NoneType
from typing import Any

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
