"""A config from Python to a Sweep: the path of a file, its text, or a dict that says the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from normexp.config.sweepfile import Sweep, load, parse
from normexp.errors import UserError
from normexp.keys import plain_scalar

Config = str | PathLike[str] | Mapping[str, Any]
"""The path of a YAML file, its text, or what the text would say as a dict."""
ORIGIN = "config"
"""What a config without a file is called in complaints."""


def read(config: Config, overrides: Sequence[str] = (), *, scale: float = 1.0) -> Sweep:
    """The sweep that a config describes; see `sweepfile.load`. Raises UserError."""
    if isinstance(config, Mapping):
        return parse(_as_yaml(config), origin=ORIGIN, overrides=overrides, scale=scale)
    if isinstance(config, str) and is_text(config):
        return parse(config, origin=ORIGIN, overrides=overrides, scale=scale)
    return load(Path(config), overrides, scale=scale)


SUFFIXES = (".yaml", ".yml")


def is_text(config: str) -> bool:
    """Whether it is YAML itself and not a path: it has several lines, or `key: value` and is not named like a file."""
    if "\n" in config:
        return True
    return re.search(r":\s", config) is not None and not config.endswith(SUFFIXES) and not _is_file(config)


def _is_file(config: str) -> bool:
    try:
        return Path(config).is_file()
    except OSError:  # longer than a name can be
        return False


def _as_yaml(config: Mapping[str, Any]) -> str:
    try:
        return yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True)
    except ValueError as fault:
        raise UserError(f"{ORIGIN}: {fault}") from fault
    except yaml.YAMLError as fault:
        raise UserError(f"{ORIGIN}: {fault.args[-1]!r} has no form in YAML: write numbers, words and lists") from fault


def _plain(value: Any) -> Any:
    """Arrays, ranges, tuples and numbers of NumPy's as YAML has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist") and getattr(value, "shape", ()) != ():
        return _plain(value.tolist())
    if isinstance(value, list | tuple | range):
        return [_plain(item) for item in value]
    value = plain_scalar(value)
    return str(value) if isinstance(value, str) else value
