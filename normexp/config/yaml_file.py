"""YAML as nodes: raw text with its place, never Python objects, and all complaints collected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from normexp.config.keys import near_to
from normexp.errors import UserError, at_most

MAX_TEXT = 2**18
"""Characters of the longest text that is read."""
MAX_NODES = 200_000
"""Nodes looked at, aliases followed each time: a short text can stand for billions."""
MAX_COMPLAINTS = 30
"""Complaints or warnings shown; the rest is counted."""
MAX_FAULTS = 1000
"""Faults at which reading ends: what has more is no config, and to look for the nearest valid names takes time."""

_YAML = "tag:yaml.org,2002:"
_TAGS = {_YAML + name for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "seq", "map")}
_KINDS = {yaml.ScalarNode: "a single value", yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}


@dataclass(slots=True)
class Notes:
    """What is wrong with a config and its overrides, and what is merely worth knowing.

    `unread` names the run keys of which something could not be read.
    """

    warnings: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    _faults: list[tuple[tuple[int, int], str]] = field(default_factory=list)

    def fault(self, text: str, place: tuple[int, int] = (0, 0)) -> None:
        """Note a complaint about a place (line and column from 1) in the file, or about the command line.

        Raises UserError where there are too many.
        """
        self._faults.append((place, text))
        if len(self._faults) > MAX_FAULTS:
            raise UserError("reading ended here")

    @property
    def count(self) -> int:
        """Faults so far."""
        return len(self._faults)

    @property
    def complaints(self) -> list[str]:
        """All complaints, each once, those about the command line first, then in the order of the file."""
        return list(dict.fromkeys(text for _, text in sorted(self._faults, key=lambda fault: fault[0])))

    def fail_if_any(self) -> None:
        """Raises UserError with every complaint."""
        if self._faults:
            raise UserError(*bounded(self.complaints))


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a mapping."""

    key: str
    key_node: yaml.ScalarNode
    node: yaml.Node


class Source:
    """One YAML text, called `origin` in complaints: the walker over its nodes. An override has no line numbers."""

    def __init__(self, origin: str, notes: Notes, *, numbered: bool = True) -> None:
        self.origin = origin
        self.notes = notes
        self.numbered = numbered
        self._visited = 0

    def compose(self, text: str) -> yaml.Node | None:
        """The root of the text's one document, None for none. Raises UserError where it is no YAML."""
        if len(text) > MAX_TEXT:
            raise UserError(f"{self.origin}: longer than {MAX_TEXT} characters: this is no config")
        try:
            roots = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        except yaml.MarkedYAMLError as error:
            raise UserError(self._broken(error)) from None
        except RecursionError:
            raise UserError(f"{self.origin}: nested too deeply for a config") from None
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            # PyYAML lets ValueError and OverflowError through for escapes and directives out of range
            raise UserError(f"{self.origin}: not YAML: {' '.join(str(error).split())}") from None
        if len(roots) > 1:
            place = self.place(roots[1])
            raise UserError(f"{place}: holds {len(roots)} documents: keep one, and drop the line ---")
        return roots[0] if roots else None

    def place(self, node: yaml.Node) -> str:
        """Where a node stands: file:line."""
        return f"{self.origin}:{node.start_mark.line + 1}" if self.numbered else self.origin

    def fault(self, node: yaml.Node, where: str, text: str) -> None:
        """Note what is wrong with the key `where`."""
        mark = node.start_mark
        place = (mark.line + 1, mark.column + 1) if self.numbered else (0, 0)
        self.notes.fault(f"{self.place(node)}: {where}: {text}" if where else f"{self.place(node)}: {text}", place)

    def warn(self, node: yaml.Node, where: str, text: str) -> None:
        """Note what is worth knowing about the key `where`."""
        self.notes.warnings.append(f"{self.place(node)}: {where}: {text}")

    def mapping(self, node: yaml.Node, where: str) -> list[Entry]:
        """The entries of a mapping; an empty value is an empty mapping. Duplicate and odd keys are faults."""
        if not isinstance(node, yaml.MappingNode):
            if not is_null(node):
                self.fault(node, where, f"expected a mapping of keys to values, found {kind(node)}")
            return []
        if not self._tag_is_plain(node, where):
            return []
        entries: dict[str, Entry] = {}
        for key_node, value_node in self._visit(node.value):
            if not isinstance(key_node, yaml.ScalarNode):
                self.fault(key_node, where, f"a key must be a word, not {kind(key_node)}")
            elif key_node.tag == _YAML + "merge":
                self.fault(key_node, where, "merge keys (<<) are not read: write the keys out")
            elif key_node.value in entries:
                first = entries[key_node.value].key_node.start_mark.line + 1
                self.fault(key_node, dotted(where, key_node.value), f"stands twice, first at line {first}: keep one")
            else:
                entries[key_node.value] = Entry(key_node.value, key_node, value_node)
        return list(entries.values())

    def sequence(self, node: yaml.Node, where: str) -> list[yaml.Node]:
        """The items of a list."""
        if not isinstance(node, yaml.SequenceNode):
            self.fault(node, where, f"expected a list, found {kind(node)}")
            return []
        if not self._tag_is_plain(node, where):
            return []
        return list(self._visit(node.value))

    def scalar(self, node: yaml.Node, where: str) -> yaml.ScalarNode | None:
        """The node, if it is a single value."""
        if not isinstance(node, yaml.ScalarNode):
            self.fault(node, where, f"takes one value, not {kind(node)}")
            return None
        return node if self._tag_is_plain(node, where) else None

    def text(self, node: yaml.Node, where: str) -> str | None:
        """A single value as text, just as it is written, on one line; an empty one is a fault."""
        scalar = self.scalar(node, where)
        if scalar is None:
            return None
        text = " ".join(str(scalar.value).split())
        if not text or is_null(scalar):
            self.fault(node, where, "is empty: write a text, or drop the key")
            return None
        return text

    def _tag_is_plain(self, node: yaml.Node, where: str) -> bool:
        if node.tag not in _TAGS:
            self.fault(node, where, f"the tag {node.tag[:60]} is not read: write the plain value")
        return node.tag in _TAGS

    def _visit(self, children: Iterable[Any]) -> Iterable[Any]:
        for child in children:
            self._visited += 1
            if self._visited > MAX_NODES:
                raise UserError(f"{self.origin}: more than {MAX_NODES} values, aliases counted each time: too large")
            yield child

    def _broken(self, error: yaml.MarkedYAMLError) -> str:
        mark = error.problem_mark or error.context_mark
        place = self.origin
        if mark is not None and self.numbered:
            place = f"{place}:{mark.line + 1}:{mark.column + 1}"
        problem = error.problem or str(error)
        if "'\\t'" in problem:
            return f"{place}: a tab is used for indentation: write spaces"
        context = f" {error.context}" if error.context else ""
        return f"{place}: not YAML: {problem}{context}"


def is_null(node: yaml.Node) -> bool:
    """An empty value, null or ~, unquoted."""
    return isinstance(node, yaml.ScalarNode) and node.tag == _YAML + "null"


def is_quoted(node: yaml.ScalarNode) -> bool:
    """In quotes, or a block of text."""
    return node.style is not None


def kind(node: yaml.Node) -> str:
    """What a node is, in words."""
    return "nothing" if is_null(node) else _KINDS[type(node)]


def dotted(where: str, key: str) -> str:
    """The path of a key inside `where`; a long key is cut."""
    short = key if len(key) <= 40 else key[:40] + "..."
    return f"{where}.{short}" if where else short


def nearest(word: str, words: Iterable[str]) -> str:
    """The valid word that `word` was meant for, as the end of a complaint; all of them if none is near."""
    known = list(words)
    near = near_to(word[:100].lower().rpartition(".")[2], known)
    return f"did you mean {near}?" if near else f"known are {', '.join(known)}"


def bounded(complaints: list[str]) -> list[str]:
    """The first complaints, and how many more there are."""
    return at_most(complaints, MAX_COMPLAINTS)
