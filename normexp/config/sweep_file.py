"""Read the config of a sweep from a file, a text or a dict, and report all errors at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from normexp.config import other_programs, plugins
from normexp.config.counting import Structures, clashes
from normexp.config.groups import SECTIONS, Group, read_group, read_part, scaled_values
from normexp.config.keys import plain_scalar, translated
from normexp.config.overrides import apply, read_overrides
from normexp.config.overrides import folder as folder_name
from normexp.config.plan import Pivot, Published
from normexp.config.run import KEYS
from normexp.config.yaml_file import MAX_TEXT, Entry, Notes, Source, bounded, is_null, nearest
from normexp.errors import UserError
from normexp.schemes.network_config import Value

SUFFIXES = (".yaml", ".yml")
MAX_SCALE = 1000
TOP = ("name", "title", *SECTIONS, "sweeps", "table", "published", "plugin")
"""Top-level keys of a config."""
LONGEST_NAME = 100
RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[\d¹²³]|lpt[\d¹²³])\s*(\..*)?", re.IGNORECASE)
"""Device names on Windows."""
NOT_IN_NAMES = '<>:"|?*'
"""Characters that file names on Windows cannot contain."""
ORIGIN = "config"
"""Name in messages of a config that is not in a file."""

Config = str | PathLike[str] | Mapping[str, Any]
"""A config: the path of a YAML file, its text, or a dict with the same content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A config that has been read: the union of its groups. `origin` is the file name in messages.

    `plugins` are the plugins that it names, as written there, and their digests. They have been loaded.
    """

    name: str
    title: str
    folder: str
    groups: tuple[Group, ...]
    source: str
    origin: str
    pivot: Pivot | None = None
    published: tuple[Published, ...] = ()
    plugins: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def load(path: Path, overrides: Sequence[str] = (), *, scale: float = 1.0) -> Sweep:
    """Read a config file. `scale` multiplies steps, warmup and eval_every of every run. Raises UserError."""
    text = text_of(path)
    return parse(text, origin=str(path), stem=path.stem, overrides=overrides, scale=scale, folder=path.parent)


def parse(
    text: str,
    *,
    origin: str,
    stem: str = "sweep",
    overrides: Sequence[str] = (),
    scale: float = 1.0,
    folder: Path | None = None,
) -> Sweep:
    """Read a sweep from YAML text, and load the plugins that it names.

    `stem` is its name if the text has none. Paths of plugins are relative to `folder`, by default the working
    directory. Raises UserError.
    """
    notes = Notes()
    if not 0 < scale <= MAX_SCALE:
        notes.fault(f"scale {scale:g}: must be a number above 0 and at most {MAX_SCALE}")
    changes = read_overrides(overrides, notes)
    try:
        reader = _Reader(Source(origin, notes), text, folder or Path())
        groups = reader.groups
        for change in changes:
            groups = [apply(change, group, notes) for group in groups]
    except UserError as error:
        raise UserError(*bounded([*notes.complaints, *error.complaints])) from None
    texts = {change.key: change for change in changes if change.axis is None}
    name, place = reader.name or stem, reader.name_place
    if "name" in texts:
        name, place = texts["name"].text, texts["name"].origin
    wrong = bad_name(name)
    if wrong:
        notes.fault(f"{place}: name: {name[:LONGEST_NAME]!r} {wrong}")
    if notes.count:
        raise UserError(*bounded([*notes.complaints, *clashes(groups, Structures(origin, notes.unread))]))
    published = reader.published
    if scale != 1.0:
        notes.warnings += [warning for group in groups for warning in group.merged(scale)]
        groups = [group.scaled(scale) for group in groups]
        published = [replace(figure, where=scaled_values(figure.where, scale)) for figure in published]
    return Sweep(
        name=name,
        title=texts["title"].text if "title" in texts else reader.title or name,
        folder=folder_name(name, changes, scale),
        groups=tuple(groups),
        source=text,
        origin=origin,
        pivot=reader.pivot,
        published=tuple(published),
        plugins=reader.plugins,
        warnings=tuple(bounded(list(dict.fromkeys(notes.warnings)))),
    )


def text_of(path: Path) -> str:
    """Return the text of a config file. Raises UserError if it is not readable UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(4 * MAX_TEXT + 4)  # bounded, since a device may have no end
        if len(data) > 4 * MAX_TEXT + 3:
            raise UserError(f"{path}: longer than {MAX_TEXT} characters, so not a config")
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        hint = ": the config comes first" if "=" in path.name else ""
        if path.parent.name in ("configs", "examples"):
            hint = ": `normexp init --examples` writes the configs and examples that normexp brings"
        raise UserError(f"{path}: no such file{hint}") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder: give a config file") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: not UTF-8 text: save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def bad_name(name: str) -> str:
    """Return why a name cannot be used as a folder name, or an empty text."""
    if re.search(r"[/\\\x00-\x1f\x7f]", name):
        return "must not contain a path separator or a control character, since it names a folder"
    if wrong := sorted(set(name) & set(NOT_IN_NAMES)):
        return f"is not a valid folder name on every system: remove {' '.join(wrong)}"
    if name.startswith((".", "-")) or name != name.strip():
        return "must not start with a dot, a dash or a space, since it names a folder"
    if name.endswith(".") or RESERVED.fullmatch(name):
        return "is not a valid folder name on every system: choose another"
    if len(name) > LONGEST_NAME or len(name.encode(errors="replace")) > 1.5 * LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} characters"
    return ""


class _Reader:
    """Reads the top level of a config."""

    def __init__(self, source: Source, text: str, folder: Path) -> None:
        self.source = source
        self.folder = folder
        self.name: str | None = None
        self.name_place = source.origin
        self.title: str | None = None
        self.pivot: Pivot | None = None
        self.published: list[Published] = []
        self.plugins: dict[str, str] = {}
        root = source.compose(text)
        if root is None or is_null(root) or (isinstance(root, yaml.MappingNode) and not root.value):
            raise UserError(f"{source.origin}: the config is empty: write at least base or grid")
        before = source.notes.count
        entries = {entry.key: entry for entry in source.mapping(root, "")}
        if source.notes.count > before or not set(entries) <= {*TOP, *KEYS}:
            source.notes.unread.update(KEYS)  # an unread entry could be a section that sets any key
        if "plugin" in entries:
            self.plugins = self._plugins(entries["plugin"].node)  # first: values of other keys may come from plugins
        self._check_keys(entries)
        if "name" in entries:
            self.name = source.text(entries["name"].node, "name")
            self.name_place = source.place(entries["name"].node)
        if "title" in entries:
            self.title = source.text(entries["title"].node, "title")
        self.groups = self._groups(entries)
        if "table" in entries:
            self.pivot = self._pivot(entries["table"].node)
        if "published" in entries:
            self.published = self._published(entries["published"].node)

    def _check_keys(self, entries: Mapping[str, Entry]) -> None:
        for name, entry in entries.items():
            if name in KEYS:
                self.source.fault(entry.key_node, name, f"{name} belongs under base or grid")
                self.source.notes.unread.add(name)
            elif name not in TOP:
                self.source.fault(entry.key_node, name[:40], f"unknown key; {self._advice(entry)}")

    def _advice(self, entry: Entry) -> str:
        """Return what to write instead of an unknown top-level key."""
        if advice := other_programs.section(entry.key, entry.node, KEYS):
            return advice
        if (meant := translated(entry.key[:100].rpartition(".")[2])) in KEYS:
            return f"did you mean {meant}, under base or grid?"
        return nearest(entry.key, TOP)

    def _plugins(self, node: yaml.Node) -> dict[str, str]:
        """Load the plugins that the config names. Return their digests by name. Raises UserError."""
        nodes = [node] if isinstance(node, yaml.ScalarNode) else self.source.sequence(node, "plugin")
        texts = [self.source.text(item, "plugin") for item in nodes]
        digests = {}
        for item, text in zip(nodes, texts, strict=True):
            if text is not None:
                plugin = plugins.read(self.folder / text, f"{self.source.place(item)}: plugin: {text}")
                plugins.add(plugin, from_config=True)
                digests[text] = plugin.digest
        return digests

    def _groups(self, entries: Mapping[str, Entry]) -> list[Group]:
        if "sweeps" not in entries:
            return [read_group(self.source, entries, "", "", {})]
        for name in SECTIONS[1:]:
            if name in entries:
                self.source.fault(entries[name].key_node, name, f"with sweeps, {name} belongs inside its entries")
        shared = {"base": entries["base"]} if "base" in entries else {}
        base = read_group(self.source, shared, "", "", {}).base
        nodes = self.source.sequence(entries["sweeps"].node, "sweeps")
        if isinstance(entries["sweeps"].node, yaml.SequenceNode) and not nodes:
            self.source.fault(entries["sweeps"].node, "sweeps", "has no entry: write at least one")
        return [self._entry(node, f"sweeps[{number}]", base) for number, node in enumerate(nodes, 1)]

    def _entry(self, node: yaml.Node, where: str, base: Mapping[str, Value]) -> Group:
        sections = {entry.key: entry for entry in self.source.mapping(node, where)}
        for name, entry in sections.items():
            path = f"{where}.{name[:40]}"
            if name in KEYS:
                self.source.fault(entry.key_node, path, f"{name} belongs under base or grid")
                self.source.notes.unread.add(name)
            elif name not in SECTIONS and name != "label":
                self.source.fault(entry.key_node, path, f"unknown key; {nearest(name, ['label', *SECTIONS])}")
        label = self.source.text(sections["label"].node, f"{where}.label") if "label" in sections else ""
        return read_group(self.source, sections, where, label or "", base)

    def _pivot(self, node: yaml.Node) -> Pivot:
        sides: dict[str, tuple[str, ...]] = {"rows": (), "columns": ()}
        for entry in self.source.mapping(node, "table"):
            path = f"table.{entry.key[:40]}"
            if entry.key not in sides:
                self.source.fault(entry.key_node, path, f"unknown key; {nearest(entry.key, sides)}")
                continue
            single = isinstance(entry.node, yaml.ScalarNode) and not is_null(entry.node)
            nodes = [entry.node] if single else self.source.sequence(entry.node, path)
            words = [self.source.text(item, path) for item in nodes]
            for word in (word for word in words if word is not None and word not in KEYS):
                self.source.fault(entry.node, path, f"{word[:40]!r} is not a run key; {nearest(word, KEYS)}")
            sides[entry.key] = tuple(word for word in words if word is not None)
        names = [*sides["rows"], *sides["columns"]]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.source.fault(node, "table", f"{name[:40]} is listed twice: keep it in rows or in columns")
        if not sides["rows"]:
            self.source.fault(node, "table", "has no rows: write table: {rows: [lr], columns: [position]}")
        return Pivot(rows=sides["rows"], columns=sides["columns"])

    def _published(self, node: yaml.Node) -> list[Published]:
        figures = []
        for number, item in enumerate(self.source.sequence(node, "published"), 1):
            where = f"published[{number}]"
            entries = {entry.key: entry for entry in self.source.mapping(item, where)}
            for name in (name for name in entries if name not in ("where", "text", "source")):
                path = f"{where}.{name[:40]}"
                self.source.fault(
                    entries[name].key_node, path, f"unknown key; {nearest(name, ('where', 'text', 'source'))}"
                )
            missing = [name for name in ("where", "text", "source") if name not in entries]
            if not missing:
                figures.append(self._figure(entries, where))
            elif isinstance(item, yaml.MappingNode) or is_null(item):
                self.source.fault(item, where, f"is missing {', '.join(missing)}")
        return figures

    def _figure(self, entries: Mapping[str, Entry], where: str) -> Published:
        part = read_part(self.source, entries["where"].node, f"{where}.where", also=("label",))
        label, labels = part.get("label"), {group.label for group in self.groups} - {""}
        if label is not None and label not in labels:
            known = nearest(str(label), sorted(labels)) if labels else "no entry under sweeps has a label"
            self.source.fault(entries["where"].node, f"{where}.where.label", f"unknown label {label!r}; {known}")
        return Published(
            where=part,
            text=self.source.text(entries["text"].node, f"{where}.text") or "",
            source=self.source.text(entries["source"].node, f"{where}.source") or "",
        )


def read(config: Config, overrides: Sequence[str] = (), *, scale: float = 1.0) -> Sweep:
    """Read the sweep that a config describes; see `load`. Raises UserError."""
    if isinstance(config, Mapping):
        return parse(_as_yaml(config), origin=ORIGIN, overrides=overrides, scale=scale)
    if isinstance(config, str) and is_text(config):
        return parse(config, origin=ORIGIN, overrides=overrides, scale=scale)
    return load(Path(config), overrides, scale=scale)


def is_text(config: str) -> bool:
    """Return whether a text is YAML, not a path: it has several lines, or has `key: value` and does not name a file."""
    if "\n" in config:
        return True
    return re.search(r":\s", config) is not None and not config.endswith(SUFFIXES) and not _is_file(config)


def _is_file(config: str) -> bool:
    try:
        return Path(config).is_file()
    except OSError:  # the text is longer than a file name can be
        return False


def _as_yaml(config: Mapping[str, Any]) -> str:
    try:
        return yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True)
    except ValueError as fault:
        raise UserError(f"{ORIGIN}: {fault}") from fault
    except yaml.YAMLError as fault:
        raise UserError(
            f"{ORIGIN}: {fault.args[-1]!r} cannot be written as YAML: use numbers, texts and lists"
        ) from fault


def _plain(value: Any) -> Any:
    """Return a value in types that YAML can represent: no NumPy types, ranges or tuples."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist") and getattr(value, "shape", ()) != ():
        return _plain(value.tolist())
    if isinstance(value, list | tuple | range):
        return [_plain(item) for item in value]
    value = plain_scalar(value)
    return str(value) if isinstance(value, str) else value
