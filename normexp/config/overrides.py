"""Read `key=value` overrides from the command line. Values are written as in the YAML, and apply to every group."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import yaml

from normexp.config import other_programs
from normexp.config.axes import Axis
from normexp.config.groups import Group, read_axis
from normexp.config.keys import Key, as_typed, counts_seeds, near_to, with_point
from normexp.config.labels import exact_text
from normexp.config.run import KEYS
from normexp.config.yaml_file import Notes, Source, is_null, nearest
from normexp.errors import UserError

TEXTS = ("name", "title")
"""Top-level keys that an override may set."""
LONGEST_SLUG = 80


@dataclass(frozen=True, slots=True)
class Override:
    """One override: a run key with its axis, or `name` or `title` with its text. `origin` names it in messages."""

    key: str
    text: str
    origin: str
    axis: Axis | None = None
    single: bool = False


def read_overrides(texts: Sequence[str], notes: Notes) -> list[Override]:
    """Return the overrides of the command line. Messages name the override."""
    if parts := _spaced_override(texts):
        raise UserError(f"override {_shown(' '.join(parts))}: write {_shown(''.join(parts))}, without spaces")
    overrides: dict[str, Override] = {}
    for text in texts:
        source = Source(f"override {_shown(text)}", notes, numbered=False)
        try:
            override = _read(source, text)
        except UserError as error:
            override = None
            for complaint in error.complaints:
                notes.fault(complaint)
        if override is None:
            key = text.partition("=")[0].strip()
            notes.unread.update({key, near_to(key.lower(), KEYS)})
            continue
        if override.key in overrides:
            notes.fault(f"{source.origin}: {override.key} is given twice: keep one")
        overrides[override.key] = override
    return list(overrides.values())


def _spaced_override(texts: Sequence[str]) -> Sequence[str]:
    """Return the parts of the first override written with spaces, as in `lr = 0.1`, or nothing if there is none."""
    for number, text in enumerate(texts):
        before, after = texts[number - 1 : number] if number else [], texts[number + 1 : number + 2]
        if text.startswith("=") and before and "=" not in before[0]:
            return [*before, text, *(after if text == "=" else ())]
        if text.endswith("=") and text != "=" and after and "=" not in after[0]:
            return [text, *after]
    return []


def _shown(text: str) -> str:
    """Return an override for a message: on one line, cut to 100 characters."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return line if len(line) <= 100 else line[:100] + "..."


def _read(source: Source, text: str) -> Override | None:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise UserError(f"{source.origin}: has no '=': write key=value, such as lr=1e-3,1e-2")
    if counts_seeds(key):
        raise UserError(f"{source.origin}: unknown key {_shown(key)!r}; write {_seeds(source, value)}")
    if key not in KEYS and key not in TEXTS:
        raise UserError(f"{source.origin}: unknown key {_shown(key)!r}; {nearest(key, [*KEYS, *TEXTS])}")
    if key in KEYS and (meant := other_programs.called(value)):
        raise UserError(f"{source.origin}: {key}: code is not evaluated: write {key}={_typed(meant)}")
    node = source.compose(value)
    if node is None or (is_null(node) and not node.value):
        raise UserError(f"{source.origin}: the value of {key} is empty: write {key}=value")
    if key in TEXTS:
        words = source.text(node, key)
        return None if words is None else Override(key, words, source.origin)
    if isinstance(node, yaml.ScalarNode) and node.style is None and "," in node.value:
        if (decimal := with_point(value)) and (why := _no_list(KEYS[key], value)):
            raise UserError(
                f"{source.origin}: {key}: {why}; {value} reads as two values: for a decimal write {key}={decimal}"
            )
        if decimal and KEYS[key].kind is float and value.startswith("0,"):
            source.warn(node, key, f"{value} reads as two values: for a decimal write {key}={decimal}")
        node = source.compose(f"[{value}]")
    axis = None if node is None else read_axis(source, node, key, KEYS[key])
    if axis is None:
        return None
    return Override(key, _slug(value, axis), source.origin, axis, single=isinstance(node, yaml.ScalarNode))


def _seeds(source: Source, value: str) -> str:
    """Return the override with as many seeds as a value says: `seed=0,1,2` for 3."""
    node = source.compose(f"[{value}]" if "," in value else value) or yaml.ScalarNode("", "")
    key, _, axis = other_programs.seeds(node).partition(": ")
    return f"{key}={_typed(axis)}"


def _typed(axis: str) -> str:
    """Return an axis of a YAML file as it is typed in an override: without brackets, or quoted if it is a builder."""
    return f"'{axis}'" if axis.startswith("{") else axis.strip("[]").replace(", ", ",")


def _no_list(key: Key, value: str) -> str:
    """Return why the comma-separated parts are not values of the key, or an empty text if they are."""
    for part in value.split(","):
        try:
            key.parse(part)
        except ValueError as fault:
            return str(fault)
    return ""


def _slug(value: str, axis: Axis) -> str:
    """Return the values in a canonical spelling. Axis builders and long lists keep the typed text."""
    if value.startswith("{") or axis.count > 20:
        return re.sub(r"[^A-Za-z0-9.+-]+", "-", value).strip("-")
    return ",".join(dict.fromkeys(as_typed(item) for item in axis))


def apply(override: Override, group: Group, notes: Notes) -> Group:
    """Return the group with the key replaced where it is set. A new key goes to `base`, a new axis to `grid`."""
    key, axis = override.key, override.axis
    if axis is None:
        return group
    beside = [name for zipped in group.zips if key in zipped for name in zipped if name != key]
    if any(key in zipped for zipped in group.zips):
        others = f" beside {', '.join(beside)}" if beside else ""
        notes.fault(f"{override.origin}: {key} is in a zip group{others}: change it in the file")
        return group
    if key in group.grid or not override.single:
        base = {name: value for name, value in group.base.items() if name != key}
        return replace(group, base=base, grid={**group.grid, key: axis})
    return replace(group, base={**group.base, key: axis.value(0)})


def folder(name: str, overrides: Sequence[Override], scale: float) -> str:
    """Return the name of the sweep's folder: the name of the sweep and the changes from the command line."""
    changes = sorted(f"{override.key}={override.text}" for override in overrides if override.axis is not None)
    if scale != 1.0:
        changes.append(f"scale={exact_text(scale)}")
    return name + slug(changes)


def slug(changes: Sequence[str], longest: int = LONGEST_SLUG) -> str:
    """Return `+a=1+b=2`. A longer slug is cut and ends in a hash of the whole."""
    whole = "".join(f"+{change}" for change in changes)
    if len(whole) <= longest:
        return whole
    return f"{whole[: longest - 9]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
