"""Read YAML as nodes: values stay raw text with their line, no Python objects are built, and errors are collected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from normexp.config.keys import near_to
from normexp.errors import UserError, at_most

MAX_TEXT = 2**18
"""Maximum number of characters of a config."""
MAX_NODES = 200_000
"""Maximum number of nodes visited, counting aliases each time: a short text can expand to billions of nodes."""
MAX_COMPLAINTS = 30
"""Number of errors or warnings shown; the rest are counted."""
MAX_FAULTS = 1000
"""Number of errors at which reading stops, because finding the nearest valid name for each error takes time."""

_YAML = "tag:yaml.org,2002:"
_TAGS = {_YAML + name for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "seq", "map")}
_KINDS = {yaml.ScalarNode: "a single value", yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}


@dataclass(slots=True)
class Notes:
    """Errors and warnings about a config and its overrides.

    `unread` names the run keys for which something could not be read.
    """

    warnings: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    _faults: list[tuple[tuple[int, int], str]] = field(default_factory=list)

    def fault(self, text: str, place: tuple[int, int] = (0, 0)) -> None:
        """Record an error at a place (line and column from 1) in the file, or about the command line.

        Raises UserError after too many errors.
        """
        self._faults.append((place, text))
        if len(self._faults) > MAX_FAULTS:
            raise UserError("too many errors: reading stopped here")

    @property
    def count(self) -> int:
        """The number of errors so far."""
        return len(self._faults)

    @property
    def complaints(self) -> list[str]:
        """The distinct errors: those about the command line first, then in the order of the file."""
        return list(dict.fromkeys(text for _, text in sorted(self._faults, key=lambda fault: fault[0])))

    def fail_if_any(self) -> None:
        """Raise UserError with every error, if there are any."""
        if self._faults:
            raise UserError(*bounded(self.complaints))


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a mapping."""

    key: str
    key_node: yaml.ScalarNode
    node: yaml.Node


class Source:
    """Walks over the nodes of one YAML text, called `origin` in messages. Overrides have no line numbers."""

    def __init__(self, origin: str, notes: Notes, *, numbered: bool = True) -> None:
        self.origin = origin
        self.notes = notes
        self.numbered = numbered
        self._visited = 0

    def compose(self, text: str) -> yaml.Node | None:
        """Return the root of the single document in the text, or None if it is empty. Raises UserError otherwise."""
        if len(text) > MAX_TEXT:
            raise UserError(f"{self.origin}: longer than {MAX_TEXT} characters, so not a config")
        try:
            roots = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        except yaml.MarkedYAMLError as error:
            raise UserError(self._broken(error)) from None
        except RecursionError:
            raise UserError(f"{self.origin}: nested too deeply for a config") from None
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            # PyYAML passes on ValueError and OverflowError for escapes and directives that are out of range.
            raise UserError(f"{self.origin}: not YAML: {' '.join(str(error).split())}") from None
        if len(roots) > 1:
            place = self.place(roots[1])
            raise UserError(f"{place}: holds {len(roots)} documents: keep one, and remove the line ---")
        return roots[0] if roots else None

    def place(self, node: yaml.Node) -> str:
        """Return the place of a node as file:line."""
        return f"{self.origin}:{node.start_mark.line + 1}" if self.numbered else self.origin

    def fault(self, node: yaml.Node, where: str, text: str) -> None:
        """Record an error about the key `where`."""
        mark = node.start_mark
        place = (mark.line + 1, mark.column + 1) if self.numbered else (0, 0)
        self.notes.fault(f"{self.place(node)}: {where}: {text}" if where else f"{self.place(node)}: {text}", place)

    def warn(self, node: yaml.Node, where: str, text: str) -> None:
        """Record a warning about the key `where`."""
        self.notes.warnings.append(f"{self.place(node)}: {where}: {text}")

    def mapping(self, node: yaml.Node, where: str) -> list[Entry]:
        """Return the entries of a mapping; an empty value is an empty mapping. Duplicate or odd keys are errors."""
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
                self.fault(key_node, where, "merge keys (<<) are not supported: write the keys out")
            elif key_node.value in entries:
                first = entries[key_node.value].key_node.start_mark.line + 1
                self.fault(key_node, dotted(where, key_node.value), f"is set twice, first at line {first}: keep one")
            else:
                entries[key_node.value] = Entry(key_node.value, key_node, value_node)
        return list(entries.values())

    def sequence(self, node: yaml.Node, where: str) -> list[yaml.Node]:
        """Return the items of a list."""
        if not isinstance(node, yaml.SequenceNode):
            self.fault(node, where, f"expected a list, found {kind(node)}")
            return []
        if not self._tag_is_plain(node, where):
            return []
        return list(self._visit(node.value))

    def scalar(self, node: yaml.Node, where: str) -> yaml.ScalarNode | None:
        """Return the node if it is a single value, or None after recording an error."""
        if not isinstance(node, yaml.ScalarNode):
            self.fault(node, where, f"takes one value, not {kind(node)}")
            return None
        return node if self._tag_is_plain(node, where) else None

    def text(self, node: yaml.Node, where: str) -> str | None:
        """Return a single value as raw text on one line, or None after recording an error; empty text is an error."""
        scalar = self.scalar(node, where)
        if scalar is None:
            return None
        text = " ".join(str(scalar.value).split())
        if not text or is_null(scalar):
            self.fault(node, where, "is empty: write a text, or remove the key")
            return None
        return text

    def _tag_is_plain(self, node: yaml.Node, where: str) -> bool:
        if node.tag not in _TAGS:
            self.fault(node, where, f"the tag {node.tag[:60]} is not supported: write the plain value")
        return node.tag in _TAGS

    def _visit(self, children: Iterable[Any]) -> Iterable[Any]:
        for child in children:
            self._visited += 1
            if self._visited > MAX_NODES:
                raise UserError(f"{self.origin}: too large: more than {MAX_NODES} values, counting aliases each time")
            yield child

    def _broken(self, error: yaml.MarkedYAMLError) -> str:
        mark = error.problem_mark or error.context_mark
        place = self.origin
        if mark is not None and self.numbered:
            place = f"{place}:{mark.line + 1}:{mark.column + 1}"
        problem = error.problem or str(error)
        if "'\\t'" in problem:
            return f"{place}: a tab is used for indentation: use spaces"
        context = f" {error.context}" if error.context else ""
        return f"{place}: not YAML: {problem}{context}"


def is_null(node: yaml.Node) -> bool:
    """Return whether a node is an unquoted empty value, null or ~."""
    return isinstance(node, yaml.ScalarNode) and node.tag == _YAML + "null"


def is_quoted(node: yaml.ScalarNode) -> bool:
    """Return whether a value is quoted or a text block."""
    return node.style is not None


def kind(node: yaml.Node) -> str:
    """Return the kind of a node in words."""
    return "nothing" if is_null(node) else _KINDS[type(node)]


def dotted(where: str, key: str) -> str:
    """Return the path of a key inside `where`; a long key is cut."""
    short = key if len(key) <= 40 else key[:40] + "..."
    return f"{where}.{short}" if where else short


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a hint for the end of a message: the closest valid word, or all of them if none is close."""
    known = list(words)
    near = near_to(word[:100].lower().rpartition(".")[2], known)
    return f"did you mean {near}?" if near else f"expected one of {', '.join(known)}"


def bounded(complaints: list[str]) -> list[str]:
    """Return the first errors, followed by the number of the remaining ones."""
    return at_most(complaints, MAX_COMPLAINTS)
