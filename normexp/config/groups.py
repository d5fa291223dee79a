"""Groups of a sweep: fixed values, zipped axes, a grid and exclusions, read from YAML nodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from normexp.config import other_programs
from normexp.config.axes import BUILDERS, Axis, build, listed
from normexp.config.keys import Key, counts_seeds, near_to
from normexp.config.run import KEYS
from normexp.config.yaml_file import Entry, Source, is_null, is_quoted, kind, nearest
from normexp.schemes.network_config import Value

LONGEST = 200
"""Maximum number of characters of a text value."""
_FORMS = ", ".join(f"{{{name}: {numbers}}}" for name, numbers in BUILDERS.items())


def read_value(source: Source, node: yaml.Node, where: str, key: Key) -> Value | None:
    """Return the single value of a node, or None after recording an error."""
    text = _plain(source, node, where, key)
    if text is None:
        return None
    try:
        return key.parse(text)
    except ValueError as error:
        source.fault(node, where, f"{error}{_hint(text)}")
        return None


def read_axis(source: Source, node: yaml.Node, where: str, key: Key, *, paired: bool = False) -> Axis | None:
    """Return a value, a list or a builder as an axis, or None after recording an error.

    Repeated values are kept, since only the combination of all axes shows which points are duplicates. They draw a
    warning unless the axis is `paired` with others, where repetition is normal.
    """
    if isinstance(node, yaml.MappingNode):
        return _built(source, node, where, key)
    if isinstance(node, yaml.SequenceNode):
        return _listed(source, node, where, key, paired=paired)
    value = read_value(source, node, where, key)
    return None if value is None else listed([value])


def read_part(source: Source, node: yaml.Node, where: str, also: Iterable[str] = ()) -> dict[str, Value]:
    """Return a partial config with one value per key. Keys in `also` hold text."""
    values: dict[str, Value] = {}
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
            values[entry.key] = value
    return values


def _plain(source: Source, node: yaml.Node, where: str, key: Key) -> str | None:
    """Return the raw text of a value. Only keys that take words may be quoted."""
    scalar = source.scalar(node, where)
    if scalar is None:
        return None
    text = str(scalar.value)
    if len(text) > LONGEST:
        source.fault(node, where, f"a text of {len(text)} characters is not a valid value: write {key.limits()}")
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
    if meant := other_programs.called(text):
        return f"; code is not evaluated: write {meant}"
    if "(" in text:
        return f"; code is not evaluated: write a list, or one of {_FORMS}"
    return f"; for several values write [{text}]" if ", " in text else ""


def _listed(source: Source, node: yaml.Node, where: str, key: Key, *, paired: bool) -> Axis | None:
    items = source.sequence(node, where)
    if isinstance(node.value, list) and not node.value:
        source.fault(node, where, "has no value: write at least one, or remove the key")
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
        meant = other_programs.axis(node)
        forms = f"write {where.rpartition('.')[2]}: {meant}" if meant else f"takes a value, a list, or one of {_FORMS}"
        source.fault(node, where, forms)
        return None
    (entry,) = entries
    if entry.key not in BUILDERS:
        meant = other_programs.axis(node)
        advice = f"write {where.rpartition('.')[2]}: {meant}" if meant else nearest(entry.key, BUILDERS)
        source.fault(node, where, f"{entry.key!r} is not an axis builder; {advice}")
        return None
    texts = []
    for item in source.sequence(entry.node, where):
        if not isinstance(item, yaml.ScalarNode) or is_quoted(item) or len(item.value) > LONGEST:
            source.fault(item, where, f"{entry.key} takes three numbers, {BUILDERS[entry.key]}, not {kind(item)}")
            return None
        texts.append(str(item.value))
    try:
        return build(entry.key, key, texts)
    except ValueError as error:
        source.fault(node, where, str(error))
        return None


SECTIONS = ("base", "grid", "zip", "exclude")
SCALED = ("steps", "warmup", "eval_every")
"""Keys that count updates, which `--scale` multiplies."""
MAX_COMPARED = 1000
"""Number of values of an axis that are checked for equality with values of `exclude` after scaling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The points of one product: the axes of a zip group advance together; those of the grid are combined.

    `exclude` holds partial configs. Keys that are not set have their default.
    """

    label: str = ""
    base: Mapping[str, Value]
    zips: tuple[Mapping[str, Axis], ...] = ()
    grid: Mapping[str, Axis]
    exclude: tuple[Mapping[str, Value], ...] = ()

    @property
    def dimensions(self) -> list[Mapping[str, Axis]]:
        """The factors of the product, slowest first. Zipped axes share one."""
        return [*self.zips, *({name: axis} for name, axis in self.grid.items())]

    @property
    def size(self) -> int:
        """The number of points before exclusion, without building them."""
        return math.prod(next(iter(axes.values())).count for axes in self.dimensions)

    @property
    def varied(self) -> list[str]:
        """The keys in a zip group or in the grid."""
        return [name for axes in self.dimensions for name in axes]

    def asked(self, name: str) -> Value:
        """Return the configured value of a key that does not vary."""
        default: Value = KEYS[name].default
        return self.base.get(name, default)

    def merged(self, scale: float) -> Iterator[str]:
        """Yield a warning for each `exclude` entry that, once scaled, also removes values that it does not name."""
        axes = {name: axis for dimension in self.dimensions for name, axis in dimension.items() if name in SCALED}
        for part in self.exclude:
            for name in part.keys() & axes.keys():
                few = itertools.islice(axes[name], MAX_COMPARED)
                same = _scaler(name, scale)
                others = {value for value in few if value != part[name] and same(value) == same(part[name])}
                for other in sorted(others, key=float):
                    yield f"exclude {name}: {part[name]}: at scale {scale:g} it also removes {name}: {other}"

    def scaled(self, scale: float) -> Group:
        """Return this group with every number of updates multiplied by `scale`."""
        varied = self.varied
        base = dict(self.base) | {name: self.asked(name) for name in SCALED if name not in varied}
        return Group(
            label=self.label,
            base=scaled_values(base, scale),
            zips=tuple(
                {name: _scaled_axis(name, axis, scale) for name, axis in zipped.items()} for zipped in self.zips
            ),
            grid={name: _scaled_axis(name, axis, scale) for name, axis in self.grid.items()},
            exclude=tuple(scaled_values(part, scale) for part in self.exclude),
        )


def scaled_values(values: Mapping[str, Value], scale: float) -> dict[str, Value]:
    """Multiply and round the values that count updates, keeping them at least 1 (warmup: 0)."""
    return {name: _scaler(name, scale)(value) if name in SCALED else value for name, value in values.items()}


def _scaler(name: str, scale: float) -> Callable[[Value], Value]:
    least = int(KEYS[name].low)
    most = KEYS[name].high
    return lambda value: int(min(most, max(least, round(float(value) * scale))))


def _scaled_axis(name: str, axis: Axis, scale: float) -> Axis:
    return axis.map(_scaler(name, scale)) if name in SCALED else axis


def read_group(
    source: Source, sections: Mapping[str, Entry], where: str, label: str, base: Mapping[str, Value]
) -> Group:
    """Read a group from its sections (base, grid, zip, exclude). `base` holds values inherited from the top level."""
    reader = _GroupReader(source)
    prefix = f"{where}." if where else ""
    for name in SECTIONS[:3]:
        if name in sections:
            getattr(reader, f"read_{name}")(sections[name].node, prefix + name)
    before = source.notes.count
    exclude = read_excludes(source, sections["exclude"].node, f"{prefix}exclude") if "exclude" in sections else ()
    if source.notes.count > before:
        source.notes.unread.update(KEYS)
    varied = {*reader.grid, *(name for zipped in reader.zips for name in zipped)}
    above = {name: value for name, value in base.items() if name not in varied}
    return Group(
        label=label, base=above | reader.base, zips=tuple(reader.zips), grid=reader.grid, exclude=tuple(exclude)
    )


def read_excludes(source: Source, node: yaml.Node, where: str) -> list[dict[str, Value]]:
    """Read a list of partial configs. A single one needs no list."""
    if is_null(node):
        return []
    nodes = [node] if isinstance(node, yaml.MappingNode) else source.sequence(node, where)
    parts = []
    for part_node in nodes:
        if isinstance(part_node, yaml.MappingNode) and not part_node.value:
            source.fault(part_node, where, "an empty entry would exclude every point: name a key, or remove it")
        parts.append(read_part(source, part_node, where))
    return [part for part in parts if part]


class _GroupReader:
    """Reads a group section by section, to detect a key that is in two sections."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.base: dict[str, Value] = {}
        self.grid: dict[str, Axis] = {}
        self.zips: list[dict[str, Axis]] = []
        self.unread = source.notes.unread
        self._first: dict[str, tuple[str, str]] = {}

    def read_base(self, node: yaml.Node, where: str) -> None:
        for entry in self._keys(node, where):
            path = f"{where}.{entry.key}"
            if not isinstance(entry.node, yaml.ScalarNode):
                self.source.fault(entry.node, path, f"takes one value, not {kind(entry.node)}: move it under grid")
                self.unread.add(entry.key)
                continue
            value = read_value(self.source, entry.node, path, KEYS[entry.key])
            if value is not None:
                self.base[entry.key] = value
            else:
                self.unread.add(entry.key)

    def read_grid(self, node: yaml.Node, where: str) -> None:
        self.grid = self._axes(node, where)
        axis = self.grid.get("seed")
        if axis is not None and isinstance(node, yaml.MappingNode):
            seed_node = next(value for name, value in node.value if name.value == "seed")
            if isinstance(seed_node, yaml.ScalarNode) and int(axis.value(0)) > 1:
                several = other_programs.seeds(seed_node)
                self.source.warn(
                    seed_node, f"{where}.seed", f"{axis.value(0)} is one seed; for several write {several}"
                )

    def read_zip(self, node: yaml.Node, where: str) -> None:
        if is_null(node):
            return
        nodes = [node] if isinstance(node, yaml.MappingNode) else self.source.sequence(node, where)
        if not nodes and node.value:
            self.unread.update(KEYS)
        for group_node in nodes:
            axes = self._axes(group_node, where, paired=True)
            counts = {axis.count for axis in axes.values()}
            if len(counts) > 1:
                lengths = ", ".join(f"{name} has {axis.count}" for name, axis in axes.items())
                self.source.fault(group_node, where, f"zipped axes must have the same length: {lengths}")
                self.unread.update(axes)
            elif axes:
                self.zips.append(axes)

    def _axes(self, node: yaml.Node, where: str, *, paired: bool = False) -> dict[str, Axis]:
        axes = {}
        for entry in self._keys(node, where):
            axis = read_axis(self.source, entry.node, f"{where}.{entry.key}", KEYS[entry.key], paired=paired)
            if axis is not None:
                axes[entry.key] = axis
            else:
                self.unread.add(entry.key)
        return axes

    def _keys(self, node: yaml.Node, where: str) -> list[Entry]:
        """Return the entries whose key is a run key that is not yet used in the group."""
        good = []
        before = self.source.notes.count
        entries = self.source.mapping(node, where)
        if self.source.notes.count > before:
            self.unread.update(KEYS)
        extra = self._extra_values(entries, where)
        for entry in entries:
            path = f"{where}.{entry.key[:40]}"
            if entry.key in extra:
                continue
            if entry.key in SECTIONS:
                self.source.fault(entry.key_node, path, f"{entry.key} belongs beside {where}, not inside it")
                self.unread.update(KEYS)
            elif entry.key not in KEYS:
                self.source.fault(entry.key_node, path, f"unknown key; {_advice(entry, where)}")
                self.unread.add(near_to(entry.key.lower(), KEYS))
            elif entry.key in self._first:
                section, place = self._first[entry.key]
                self.source.fault(entry.key_node, path, f"is already set in {section} ({place}): keep one")
            else:
                self._first[entry.key] = (where, self.source.place(entry.key_node))
                good.append(entry)
        return good

    def _extra_values(self, entries: Sequence[Entry], where: str) -> set[str]:
        """Report lists without brackets inside braces, `{lr: 1e-3, 1e-2}`, and return their keys.

        YAML reads every value after the first as a key without a value.
        """
        extra: set[str] = set()
        for number, first in enumerate(entries):
            key = KEYS.get(first.key)
            if key is None or not isinstance(first.node, yaml.ScalarNode) or not first.node.value:
                continue
            bare = list(
                itertools.takewhile(lambda entry: entry.key not in KEYS and _is_bare(entry), entries[number + 1 :])
            )
            values = [str(first.node.value), *(entry.key for entry in bare)]
            meant = other_programs.called(", ".join(values))
            if not bare or not (meant or all(_is_value(key, value) for value in values[1:])):
                continue
            text = f"{first.key}: {meant or other_programs.listed(values)}"
            text += ", under grid" if where.endswith("base") else ""
            self.source.fault(bare[0].key_node, f"{where}.{first.key}", f"several values need brackets: write {text}")
            self.unread.add(first.key)
            extra.update((first.key, *(entry.key for entry in bare)))
        return extra


def _is_bare(entry: Entry) -> bool:
    """Return whether an entry is a key without colon and value."""
    return is_null(entry.node) and not entry.node.value


def _is_value(key: Key, text: str) -> bool:
    """Return whether a text is a value of the key, or one in the words of other programs."""
    try:
        key.parse(text[:LONGEST])
    except ValueError:
        return key.choices is not None and near_to(text[:LONGEST].lower(), key.choices()) != ""
    return True


def _advice(entry: Entry, where: str) -> str:
    """Return what to write instead of an unknown key."""
    if counts_seeds(entry.key):
        several = other_programs.seeds(entry.node)
        return f"write {several}" if where.endswith("grid") else f"write grid: {{{several}}}"
    if isinstance(entry.node, yaml.MappingNode):
        return f"write its keys directly under {where}"
    return nearest(entry.key, KEYS)
