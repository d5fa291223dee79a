"""From YAML nodes to the values of run keys: one value, an axis, or a partial config."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from normexp.config.axes import BUILDERS, Axis, build, listed
from normexp.config.yamlfile import Source, is_quoted, kind, nearest
from normexp.keys import Key, Value
from normexp.run import KEYS

LONGEST = 200
"""Characters of the longest text that can be a value."""
_FORMS = ", ".join(f"{{{name}: {numbers}}}" for name, numbers in BUILDERS.items())


def read_value(source: Source, node: yaml.Node, where: str, key: Key) -> Value | None:
    """The one value that a node holds; None after a complaint."""
    text = _plain(source, node, where, key)
    if text is None:
        return None
    try:
        return key.parse(text)
    except ValueError as error:
        source.fault(node, where, f"{error}{_hint(text)}")
        return None


def read_axis(source: Source, node: yaml.Node, where: str, key: Key, *, paired: bool = False) -> Axis | None:
    """Read a value, a list or a builder as an axis; None after a complaint.

    Repeated values stay: which points are duplicates is known only once all axes are combined. They draw a warning,
    except on an axis that is `paired` with others, where they are ordinary.
    """
    if isinstance(node, yaml.MappingNode):
        return _built(source, node, where, key)
    if isinstance(node, yaml.SequenceNode):
        return _listed(source, node, where, key, paired=paired)
    value = read_value(source, node, where, key)
    return None if value is None else listed([value])


def read_part(source: Source, node: yaml.Node, where: str, also: Iterable[str] = ()) -> dict[str, Value]:
    """A partial config, one value for each key; keys in `also` hold text."""
    found: dict[str, Value] = {}
    for entry in source.mapping(node, where):
        path = f"{where}.{entry.key}"
        if entry.key in also:
            value: Value | None = source.text(entry.node, path)
        elif entry.key in KEYS:
            value = read_value(source, entry.node, path, KEYS[entry.key])
        else:
            source.fault(entry.key_node, path, f"unknown key; {nearest(entry.key, [*also, *KEYS])}")
            continue
        if value is not None:
            found[entry.key] = value
    return found


def _plain(source: Source, node: yaml.Node, where: str, key: Key) -> str | None:
    """The raw text of a value, unquoted unless the key takes words."""
    scalar = source.scalar(node, where)
    if scalar is None:
        return None
    text = str(scalar.value)
    if len(text) > LONGEST:
        source.fault(node, where, f"a text of {len(text)} characters is no value: write {key.limits()}")
    elif key.choices is None and is_quoted(scalar):
        source.fault(node, where, _unquote(text, key))
    elif key.choices is None and not text:
        source.fault(node, where, f"is empty: write {key.limits()}")
    else:
        return text
    return None


def _unquote(text: str, key: Key) -> str:
    try:
        key.parse(text)
    except ValueError:
        return f"{text!r} is text: write {key.limits()}, without quotes{_hint(text)}"
    return f"{text!r} is text: write {text} without quotes"


def _hint(text: str) -> str:
    if "(" in text:
        return f"; code is never run: a list or an axis is written out, or as {_FORMS}"
    return f"; for several values write [{text}]" if ", " in text else ""


def _listed(source: Source, node: yaml.Node, where: str, key: Key, *, paired: bool) -> Axis | None:
    items = source.sequence(node, where)
    if isinstance(node.value, list) and not node.value:
        source.fault(node, where, "has no value: write at least one, or drop the key")
    values: list[Value] = []
    texts: dict[Value, str] = {}
    for number, item in enumerate(items, 1):
        value = read_value(source, item, f"{where}, value {number} of {len(items)}", key)
        if value is None:
            continue
        text = str(item.value) or "nothing"
        if value in texts and not paired:
            first = texts[value]
            repeat = f"{first} is listed twice" if first == text else f"{first} and {text} are both {value}"
            source.warn(item, where, repeat)
        texts.setdefault(value, text)
        values.append(value)
    return listed(values) if values else None


def _built(source: Source, node: yaml.Node, where: str, key: Key) -> Axis | None:
    entries = source.mapping(node, where)
    if len(entries) != 1:
        source.fault(node, where, f"takes a value, a list, or one of {_FORMS}")
        return None
    (entry,) = entries
    if entry.key not in BUILDERS:
        source.fault(node, where, f"{entry.key!r} builds no axis; {nearest(entry.key, BUILDERS)}")
        return None
    texts = []
    for item in source.sequence(entry.node, where):
        if not isinstance(item, yaml.ScalarNode) or is_quoted(item) or len(item.value) > LONGEST:
            source.fault(item, where, f"{entry.key} takes three numbers, {BUILDERS[entry.key]}, not {kind(item)} there")
            return None
        texts.append(str(item.value))
    try:
        return build(entry.key, key, texts)
    except ValueError as error:
        source.fault(node, where, str(error))
        return None
