"""Parse a YAML file of claims. All faults are reported at once, with file, line, key and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from normexp.claims.calculations import calculations
from normexp.claims.checks import CHECKS, Takes
from normexp.claims.claim import Citation, Claim, ClaimFile, Expected, Kind, Selection, Weight, Word
from normexp.claims.measures import MEASURES, OF_ROW
from normexp.config.axes import Axis
from normexp.config.groups import read_axis, read_value
from normexp.config.keys import Key
from normexp.config.labels import plural
from normexp.config.run import KEYS
from normexp.config.sweep_file import LONGEST_NAME, bad_name, text_of
from normexp.config.yaml_file import Entry, Notes, Source, is_null, nearest
from normexp.errors import UserError
from normexp.records.record import Outcome
from normexp.schemes.network_config import Value

MAX_VALUES = 1000
"""Maximum number of values of a key in a selection."""
NUMBER = Key(kind=float, default=0.0, neutral=0.0, help="")
COUNT = Key(kind=int, default=1, neutral=1, help="", low=1)
SWITCH = Key(kind=bool, default=False, neutral=False, help="")
TOP = ("name", "title", "sweeps", "settings", "claims")
ALWAYS = ("id", "section", "text", "stated", "kind")
QUOTED = ("quote", "translation")
"""Optional keys of every claim: each needs the other."""
OPTIONAL = (*QUOTED, "weight", "expected", "note")
"""The optional keys of every claim."""
BY_KIND: Mapping[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Kind.SWEEP: (("check", "runs"), ("with", "settings", "seeds", "elsewhere")),
    Kind.COMPUTE: (("check",), ("with", "seeds")),
    Kind.CITED: (("source", "says", "agrees"), ("own",)),
    Kind.NONE: (("why",), ()),
}
"""The required and the optional keys of each kind of claim, in addition to those of every claim."""
EARLIER = {
    "reproduced": (Word.HOLDS,),
    "only when": (Word.HOLDS_WHEN,),
    "not reproduced": (Word.REFUTED, Word.INCONCLUSIVE),
    "misquoted": (Word.SOURCE_DIFFERS,),
    "self-contradicting": (Word.CONTRADICTING,),
}
"""Words of earlier versions in `expected`, and the verdicts that they match now."""
SETTING = "setting"


class Values:
    """Reads single values. Complaints go to the notes of the source."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def selection(self, node: yaml.Node, where: str, also: tuple[str, ...] = ()) -> Selection:
        """Read a selection: values by key. Keys in `also` are allowed too, and hold one text each."""
        values: dict[str, tuple[Any, ...]] = {}
        for entry in self.source.mapping(node, where):
            path = f"{where}.{entry.key[:40]}"
            if entry.key in also:
                values[entry.key] = (self.source.text(entry.node, path) or "",)
            elif entry.key not in KEYS:
                self.source.fault(entry.key_node, path, f"unknown key; {nearest(entry.key, [*also, *KEYS])}")
            elif (axis := read_axis(self.source, entry.node, path, KEYS[entry.key])) is not None:
                values[entry.key] = self._few(axis, entry.node, path) or ()
        return values

    def one_of(self, node: yaml.Node, where: str, word: str, known: Iterable[str], hint: str = "") -> str | None:
        names = [str(name) for name in known]
        if word in names:
            return word
        self.source.fault(node, where, f"unknown value {word[:40]!r}; {nearest(word, names)}{hint}")
        return None

    def value(self, node: yaml.Node, where: str, key: Key) -> Any:
        return read_value(self.source, node, where, key)

    def figures(self, node: yaml.Node, where: str) -> tuple[str, ...]:
        """Read printed numbers as texts: their digits matter."""
        nodes = [node] if isinstance(node, yaml.ScalarNode) else self.source.sequence(node, where)
        if not nodes:
            self.source.fault(node, where, "is empty: write the figures printed in the text")
        return tuple(str(item.value) for item in nodes if self.value(item, where, NUMBER) is not None)

    def words(self, node: yaml.Node, where: str, known: Iterable[str]) -> tuple[str, ...] | None:
        nodes = [node] if isinstance(node, yaml.ScalarNode) else self.source.sequence(node, where)
        words = [self.source.text(item, where) for item in nodes]
        known_words = [self.one_of(node, where, word, known) for word in words if word is not None]
        return tuple(word for word in known_words if word is not None) or None

    def one(self, node: yaml.Node, where: str, known: Iterable[str]) -> str | None:
        word = self.source.text(node, where)
        return None if word is None else self.one_of(node, where, word, known)

    def along(self, node: yaml.Node, where: str, axis: str | None) -> tuple[Any, ...] | None:
        values = read_axis(self.source, node, where, KEYS[axis]) if axis is not None and axis in KEYS else None
        return None if values is None else self._few(values, node, where)

    def _few(self, axis: Axis, node: yaml.Node, where: str) -> tuple[Value, ...] | None:
        """Return the distinct values of an axis; None, with a complaint, if there are too many."""
        if axis.count > MAX_VALUES:
            self.source.fault(node, where, f"has {axis.count} values, more than {MAX_VALUES}: write fewer")
            return None
        return tuple(dict.fromkeys(axis))


READERS: Mapping[Takes, Callable[[Values, yaml.Node, str, str | None], Any]] = {
    Takes.SELECTION: lambda reader, node, where, axis: reader.selection(node, where),
    Takes.NUMBER: lambda reader, node, where, axis: reader.value(node, where, NUMBER),
    Takes.STEPS: lambda reader, node, where, axis: reader.value(node, where, KEYS["steps"]),
    Takes.KEY: lambda reader, node, where, axis: reader.one(node, where, KEYS),
    Takes.VALUES: lambda reader, node, where, axis: reader.along(node, where, axis),
    Takes.MEASURE: lambda reader, node, where, axis: reader.one(node, where, [*OF_ROW, *MEASURES]),
    Takes.OUTCOMES: lambda reader, node, where, axis: reader.words(node, where, [*Outcome]),
    Takes.TREND: lambda reader, node, where, axis: reader.one(node, where, ("rising", "falling")),
    Takes.SHARE: lambda reader, node, where, axis: reader.one(node, where, ("every", "most")),
}
"""Readers of parameters by kind. Each takes the value reader, the node, its path, and the axis of the claim."""


def load(path: Path) -> ClaimFile:
    """Read a claims file. Paths of sweeps are relative to its folder or to the working directory. Raises UserError."""
    return parse(text_of(path), path)


def parse(text: str, path: Path) -> ClaimFile:
    """Parse a YAML text. `path` is shown in complaints, and sweeps are searched in its folder. Raises UserError."""
    notes = Notes()
    reader = _Reader(Source(str(path), notes), path)
    try:
        file = reader.read(text)
    except UserError as error:
        raise UserError(*notes.complaints, *error.complaints) from None
    notes.fail_if_any()
    return file


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # an invalid file name
        return False


class _Reader:
    def __init__(self, source: Source, path: Path) -> None:
        self.source = source
        self.values = Values(source)
        self.path = path
        self.sweeps: dict[str, Path] = {}
        self.settings: tuple[str, ...] = ("",)
        self.places: dict[str, str] = {}
        self.earlier: dict[str, list[str]] = {}

    def read(self, text: str) -> ClaimFile:
        root = self.source.compose(text)
        if root is None or is_null(root):
            raise UserError(f"{self.source.origin}: the file is empty: write at least the key claims")
        entries = self._entries(root, "", TOP, needed=("claims",))
        if "sweeps" in entries:
            self._read_sweeps(entries["sweeps"].node)
        if "settings" in entries:
            self.settings = self._settings(entries, "")
        claims = [
            self._claim(node, f"claims[{number}]") for number, node in enumerate(self._items(entries, "claims"), 1)
        ]
        name = self._word(entries, "", "name") or self.path.stem
        if wrong := bad_name(name):
            place = entries["name"].node if "name" in entries else root
            self.source.fault(place, "name", f"{name[:LONGEST_NAME]!r} {wrong}")
        return ClaimFile(
            name=name,
            title=self._word(entries, "", "title") or name,
            path=self.path,
            sweeps=self.sweeps,
            claims=tuple(claim for claim in claims if claim is not None),
            warnings=tuple(self._warnings()),
        )

    def _warnings(self) -> Iterator[str]:
        """Yield one line for each word of an earlier version, at its first place."""
        for words, places in self.earlier.items():
            more = f" (and {plural(len(places) - 1, 'more place')})" if len(places) > 1 else ""
            yield f"{places[0]}: expected: {words}{more}; normexp claims --accept writes the new words"

    def _read_sweeps(self, node: yaml.Node) -> None:
        for item in self.source.sequence(node, "sweeps"):
            word = self.source.text(item, "sweeps")
            if word is None:
                continue
            path = next((path / word for path in (self.path.parent, Path()) if _is_there(path / word)), None)
            if path is None:
                self.source.fault(
                    item, "sweeps", f"{word}: no such file in the folder of this file or in the working directory"
                )
            stem = Path(word).stem
            if stem in self.sweeps:
                self.source.fault(
                    item, "sweeps", f"{word}: {self.sweeps[stem]} has the same name {stem}: rename one file"
                )
            self.sweeps.setdefault(stem, path or Path(word))

    def _claim(self, node: yaml.Node, where: str) -> Claim | None:
        """Read the entry of a claim as far as possible. Return None if there was a complaint."""
        before = self.source.notes.count
        every = {*ALWAYS, *OPTIONAL, *(name for keys in BY_KIND.values() for names in keys for name in names)}
        entries = self._entries(node, where, every, needed=ALWAYS)
        word = self._choice(entries, where, "kind", [*Kind])
        kind = Kind(word) if word is not None else None
        if kind is not None:
            self._check_keys(kind, entries, node, where)
        expected = self._expected(kind, entries, where)
        weight = self._choice(entries, where, "weight", [*Weight])
        texts: dict[str, Any] = {
            name: self._word(entries, where, name) or "" for name in (*ALWAYS, *QUOTED, "why", "note")
        }
        self._check_id(texts["id"], node, where)
        missing = [name for name in QUOTED if name not in entries]
        if 0 < len(missing) < len(QUOTED):
            self.source.fault(node, where, f"quote and translation belong together: write {missing[0]} as well")
        rest = self._rest(kind, entries, where)
        if kind is None or self.source.notes.count > before:
            return None
        texts |= {"kind": kind, "expected": expected, "place": self.source.place(node)}
        return Claim(**texts, **rest, weight=Weight(weight) if weight else Weight.DETAIL)

    def _expected(self, kind: Kind | None, entries: Mapping[str, Entry], where: str) -> Expected | None:
        """Read the expected verdict; note where it is a word of an earlier version."""
        entry = entries.get("expected")
        if entry is None or is_null(entry.node):
            return None
        written = self.source.text(entry.node, f"{where}.expected")
        if written not in EARLIER:
            word = self._choice(entries, where, "expected", [*Word])
            return Expected((Word(word),), word) if word else None
        words = EARLIER[written]
        if kind is Kind.CITED and words == (Word.HOLDS,):
            words = (Word.SOURCE_AGREES,)
        expected = Expected(words, written)
        self.earlier.setdefault(f"{written} is now {expected}", []).append(self.source.place(entry.node))
        return expected

    def _check_keys(self, kind: Kind, entries: dict[str, Entry], node: yaml.Node, where: str) -> None:
        """Complain about missing keys, and about keys that this kind of claim does not have; drop the latter."""
        needed, allowed = BY_KIND[kind]
        for name in [name for name in entries if name not in (*ALWAYS, *OPTIONAL, *needed, *allowed)]:
            self.source.fault(
                entries.pop(name).key_node, f"{where}.{name}", f"a claim of kind {kind} has no {name}: remove it"
            )
        if missing := [name for name in needed if name not in entries]:
            self.source.fault(node, where, f"a claim of kind {kind} needs {', '.join(missing)}")

    def _check_id(self, claim_id: str, node: yaml.Node, where: str) -> None:
        """Complain about an id that an earlier claim has."""
        if not claim_id:
            return
        if claim_id in self.places:
            self.source.fault(node, f"{where}.id", f"duplicate id {claim_id}, first at {self.places[claim_id]}")
        self.places.setdefault(claim_id, self.source.place(node))

    def _rest(self, kind: Kind | None, entries: Mapping[str, Entry], where: str) -> dict[str, Any]:
        """Read the keys that depend on the kind; for an unknown kind, those that mean the same in all kinds."""
        seeds = self.values.value(entries["seeds"].node, f"{where}.seeds", COUNT) if "seeds" in entries else None
        rest: dict[str, Any] = {"seeds": seeds or (3 if kind is not Kind.COMPUTE else 1)}
        if kind is Kind.COMPUTE:
            rest |= self._calculation(entries, where)
        elif kind is Kind.SWEEP and (check := self._choice(entries, where, "check", CHECKS)) is not None:
            rest |= {"check": check, "parameters": self._parameters(check, entries, where)}
        if "settings" in entries or kind is Kind.SWEEP:
            rest["settings"] = self._settings(entries, where) if "settings" in entries else self.settings
        rest["citation"] = self._citation(entries, where) if kind is Kind.CITED else None
        if "runs" in entries:
            rest |= self._runs(entries["runs"].node, f"{where}.runs")
        return rest | self._elsewhere(entries, where)

    def _calculation(self, entries: Mapping[str, Entry], where: str) -> dict[str, Any]:
        known, path = calculations(), f"{where}.with"
        check = self._choice(
            entries, where, "check", known, "; to use one of your own, give its file: --plugin FILE.py"
        )
        if check is None:
            return {}
        row = known[check]
        if "with" not in entries:
            if row.takes_figures:
                self.source.fault(
                    entries["check"].node, path, f"{check} needs figures: write those printed in the text"
                )
            return {"check": check}
        if not row.takes_figures:
            self.source.fault(entries["with"].key_node, path, f"{check} takes no figures: remove it")
            return {"check": check}
        entries_of_with = self._entries(entries["with"].node, path, ("figures",), needed=("figures",))
        figures = (
            self.values.figures(entries_of_with["figures"].node, f"{path}.figures")
            if "figures" in entries_of_with
            else ()
        )
        if figures and row.figures not in (None, len(figures)):
            message = f"{check} takes {plural(row.figures or 0, 'figure')}, not {len(figures)}"
            self.source.fault(entries_of_with["figures"].node, f"{path}.figures", message)
        return {"check": check, "parameters": {"figures": figures}}

    def _settings(self, entries: Mapping[str, Entry], where: str) -> tuple[str, ...]:
        words = [
            self.source.text(item, f"{where}.settings".lstrip(".")) for item in self._items(entries, "settings", where)
        ]
        return tuple(word for word in words if word)

    def _citation(self, entries: Mapping[str, Entry], where: str) -> Citation:
        return Citation(
            source=self._word(entries, where, "source") or "",
            says=self._word(entries, where, "says") or "",
            agrees=self._switch(entries, where, "agrees"),
            own=self._switch(entries, where, "own"),
        )

    def _switch(self, entries: Mapping[str, Entry], where: str, name: str) -> bool:
        return name in entries and bool(self.values.value(entries[name].node, f"{where}.{name}", SWITCH))

    def _runs(self, node: yaml.Node, where: str) -> dict[str, Any]:
        entries = self._entries(node, where, ("sweeps", "where"), needed=("sweeps",))
        stems = [self.source.text(item, f"{where}.sweeps") for item in self._items(entries, "sweeps", where)]
        for stem in (stem for stem in stems if stem is not None and stem not in self.sweeps):
            hint = nearest(stem, self.sweeps) if self.sweeps else "the file has no top-level key sweeps"
            self.source.fault(entries["sweeps"].node, f"{where}.sweeps", f"unknown sweep {stem[:40]!r}; {hint}")
        runs: dict[str, Any] = {"sweeps": tuple(stem for stem in stems if stem)}
        if "where" in entries:
            runs["where"] = self.values.selection(entries["where"].node, f"{where}.where")
        return runs

    def _elsewhere(self, entries: Mapping[str, Entry], where: str) -> dict[str, Any]:
        if "elsewhere" not in entries:
            return {}
        path = f"{where}.elsewhere"
        conditions = {
            entry.key: self.values.selection(entry.node, f"{path}.{entry.key[:40]}", also=(SETTING,))
            for entry in self.source.mapping(entries["elsewhere"].node, path)
        }
        return {"elsewhere": conditions}

    def _parameters(self, check: str, entries: Mapping[str, Entry], where: str) -> dict[str, Any]:
        row, path = CHECKS[check], f"{where}.with"
        needed = [name for name in row.takes if name not in row.optional]
        if "with" not in entries:
            if needed:
                self.source.fault(entries["check"].node, path, f"{check} needs {', '.join(needed)}")
            return {}
        entries_of_with = self._entries(entries["with"].node, path, row.takes, needed=needed)
        axis = self._word(entries_of_with, path, "axis") if "axis" in entries_of_with else None
        parameters = {}
        for name, entry in entries_of_with.items():
            read = READERS[row.takes[name]]
            value = read(self.values, entry.node, f"{path}.{name}", axis)
            if value is not None:
                parameters[name] = value
        return parameters

    def _entries(
        self, node: yaml.Node, where: str, known: Iterable[str], needed: Iterable[str] = ()
    ) -> dict[str, Entry]:
        """Return the entries of a mapping. Unknown and missing keys are faults."""
        entries = {entry.key: entry for entry in self.source.mapping(node, where)}
        for name in [name for name in entries if name not in known]:
            path = f"{where}.{name[:40]}".lstrip(".")
            self.source.fault(entries.pop(name).key_node, path, f"unknown key; {nearest(name, known)}")
        missing = [name for name in needed if name not in entries]
        if missing and isinstance(node, yaml.MappingNode):
            self.source.fault(node, where, f"needs {', '.join(missing)}")
        return entries

    def _items(self, entries: Mapping[str, Entry], name: str, where: str = "") -> list[yaml.Node]:
        """Return the items of a list. A single value counts as a list of one item."""
        if name not in entries:
            return []
        node = entries[name].node
        one = isinstance(node, yaml.ScalarNode) and not is_null(node)
        return [node] if one else self.source.sequence(node, f"{where}.{name}".lstrip("."))

    def _word(self, entries: Mapping[str, Entry], where: str, name: str) -> str | None:
        return self.source.text(entries[name].node, f"{where}.{name}".lstrip(".")) if name in entries else None

    def _choice(
        self, entries: Mapping[str, Entry], where: str, name: str, known: Iterable[str], hint: str = ""
    ) -> str | None:
        word = self._word(entries, where, name)
        return None if word is None else self.values.one_of(entries[name].node, f"{where}.{name}", word, known, hint)
