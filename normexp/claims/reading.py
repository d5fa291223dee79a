"""A YAML file of claims to a ClaimFile: every fault at once, each with file, line, key and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from normexp.claims.checks import CHECKS
from normexp.claims.claim import Citation, Claim, ClaimFile, Kind, Word
from normexp.claims.computed import COMPUTED
from normexp.claims.parameters import COUNT, READERS, SWITCH, Values
from normexp.config.sweepfile import LONGEST_NAME, bad_name, text_of
from normexp.config.yamlfile import Entry, Notes, Source, is_null, nearest
from normexp.errors import UserError
from normexp.labels import plural

TOP = ("name", "title", "sweeps", "settings", "claims")
ALWAYS = ("id", "section", "text", "stated", "kind")
BY_KIND: Mapping[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Kind.SWEEP: (("check", "runs"), ("with", "settings", "seeds", "elsewhere", "expected", "note")),
    Kind.COMPUTE: (("check",), ("with", "seeds", "expected", "note")),
    Kind.CITED: (("source", "says", "agrees"), ("own", "expected", "note")),
}
"""Keys that a claim of each kind needs, and those that it may have, beside those of every claim."""
SETTING = "setting"


def load(path: Path) -> ClaimFile:
    """Read a claims file. Paths of sweeps are relative to it, or else to the working directory. Raises UserError."""
    return parse(text_of(path), path)


def parse(text: str, path: Path) -> ClaimFile:
    """The claims of a YAML text; `path` names it in complaints, and its folder is where sweeps are looked for."""
    notes = Notes()
    reader = _Reader(Source(str(path), notes), path)
    try:
        read = reader.read(text)
    except UserError as error:
        raise UserError(*notes.complaints, *error.complaints) from None
    notes.fail_if_any()
    return read


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that no file can have
        return False


class _Reader:
    def __init__(self, source: Source, path: Path) -> None:
        self.source = source
        self.values = Values(source)
        self.path = path
        self.sweeps: dict[str, Path] = {}
        self.settings: tuple[str, ...] = ("",)

    def read(self, text: str) -> ClaimFile:
        root = self.source.compose(text)
        if root is None or is_null(root):
            raise UserError(f"{self.source.origin}: the file is empty: write at least claims")
        entries = self._entries(root, "", TOP, needed=("claims",))
        if "sweeps" in entries:
            self._read_sweeps(entries["sweeps"].node)
        if "settings" in entries:
            self.settings = self._settings(entries, "")
        claims: dict[str, Claim] = {}
        for number, node in enumerate(self._items(entries, "claims"), 1):
            claim = self._claim(node, f"claims[{number}]")
            if claim is not None and claim.id in claims:
                first = claims[claim.id].place
                self.source.fault(node, f"claims[{number}].id", f"{claim.id} stands twice, first at {first}")
            elif claim is not None:
                claims[claim.id] = claim
        name = self._word(entries, "", "name") or self.path.stem
        if wrong := bad_name(name):
            place = entries["name"].node if "name" in entries else root
            self.source.fault(place, "name", f"{name[:LONGEST_NAME]!r} {wrong}")
        return ClaimFile(
            name=name,
            title=self._word(entries, "", "title") or name,
            path=self.path,
            sweeps=self.sweeps,
            claims=tuple(claims.values()),
        )

    def _read_sweeps(self, node: yaml.Node) -> None:
        for item in self.source.sequence(node, "sweeps"):
            word = self.source.text(item, "sweeps")
            if word is None:
                continue
            path = next((path / word for path in (self.path.parent, Path()) if _is_there(path / word)), None)
            if path is None:
                self.source.fault(item, "sweeps", f"{word}: no such file beside this one or in the working directory")
            self.sweeps[Path(word).stem] = path or Path(word)

    def _claim(self, node: yaml.Node, where: str) -> Claim | None:
        """The claim of an entry; None after complaints that leave nothing to make it of."""
        every = {*ALWAYS, *(name for keys in BY_KIND.values() for names in keys for name in names)}
        entries = self._entries(node, where, every, needed=ALWAYS)
        kind = self._choice(entries, where, "kind", [*Kind])
        if kind is None or any(name not in entries for name in ALWAYS):
            return None
        needed, allowed = BY_KIND[Kind(kind)]
        for name in entries:
            if name not in (*ALWAYS, *needed, *allowed):
                self.source.fault(entries[name].key_node, f"{where}.{name}", f"a {kind} claim has no {name}: drop it")
        missing = [name for name in needed if name not in entries]
        if missing:
            self.source.fault(node, where, f"a {kind} claim lacks {', '.join(missing)}")
            return None
        expected = entries.get("expected")
        given = expected is not None and not is_null(expected.node)
        word = self._choice(entries, where, "expected", [*Word]) if given else None
        told: dict[str, Any] = {name: self._word(entries, where, name) or "" for name in (*ALWAYS, "note")}
        told |= {"kind": Kind(kind), "expected": Word(word) if word else None, "place": self.source.place(node)}
        return Claim(**told, **self._rest(Kind(kind), entries, where))

    def _rest(self, kind: Kind, entries: Mapping[str, Entry], where: str) -> dict[str, Any]:
        if kind is Kind.CITED:
            return {"citation": self._citation(entries, where)}
        seeds = self.values.value(entries["seeds"].node, f"{where}.seeds", COUNT) if "seeds" in entries else None
        rest: dict[str, Any] = {"seeds": seeds or (3 if kind is Kind.SWEEP else 1)}
        if kind is Kind.COMPUTE:
            return rest | self._calculation(entries, where)
        check = self._choice(entries, where, "check", CHECKS)
        if check is not None:
            rest |= {"check": check, "parameters": self._parameters(check, entries, where)}
        rest["settings"] = self._settings(entries, where) if "settings" in entries else self.settings
        return rest | self._runs(entries["runs"].node, f"{where}.runs") | self._elsewhere(entries, where)

    def _calculation(self, entries: Mapping[str, Entry], where: str) -> dict[str, Any]:
        check, path = self._choice(entries, where, "check", COMPUTED), f"{where}.with"
        if check is None:
            return {}
        row = COMPUTED[check]
        if "with" not in entries:
            if row.takes_figures:
                self.source.fault(entries["check"].node, path, f"{check} needs figures, those of the text")
            return {"check": check}
        if not row.takes_figures:
            self.source.fault(entries["with"].key_node, path, f"{check} compares with no figures: drop it")
            return {"check": check}
        given = self._entries(entries["with"].node, path, ("figures",), needed=("figures",))
        figures = self.values.figures(given["figures"].node, f"{path}.figures") if "figures" in given else ()
        if figures and row.figures not in (None, len(figures)):
            told = f"{check} compares with {plural(row.figures or 0, 'figure')}, not {len(figures)}"
            self.source.fault(given["figures"].node, f"{path}.figures", told)
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
            agrees=bool(self.values.value(entries["agrees"].node, f"{where}.agrees", SWITCH)),
            own="own" in entries and bool(self.values.value(entries["own"].node, f"{where}.own", SWITCH)),
        )

    def _runs(self, node: yaml.Node, where: str) -> dict[str, Any]:
        entries = self._entries(node, where, ("sweeps", "where"), needed=("sweeps",))
        stems = [self.source.text(item, f"{where}.sweeps") for item in self._items(entries, "sweeps", where)]
        for stem in (stem for stem in stems if stem is not None and stem not in self.sweeps):
            hint = nearest(stem, self.sweeps) if self.sweeps else "the file lists no sweeps at its top"
            self.source.fault(entries["sweeps"].node, f"{where}.sweeps", f"{stem[:40]!r} is none of the sweeps; {hint}")
        found: dict[str, Any] = {"sweeps": tuple(stem for stem in stems if stem)}
        if "where" in entries:
            found["where"] = self.values.selection(entries["where"].node, f"{where}.where")
        return found

    def _elsewhere(self, entries: Mapping[str, Entry], where: str) -> dict[str, Any]:
        if "elsewhere" not in entries:
            return {}
        path = f"{where}.elsewhere"
        found = {
            entry.key: self.values.selection(entry.node, f"{path}.{entry.key[:40]}", also=(SETTING,))
            for entry in self.source.mapping(entries["elsewhere"].node, path)
        }
        return {"elsewhere": found}

    def _parameters(self, check: str, entries: Mapping[str, Entry], where: str) -> dict[str, Any]:
        row, path = CHECKS[check], f"{where}.with"
        needed = [name for name in row.takes if name not in row.optional]
        if "with" not in entries:
            if needed:
                self.source.fault(entries["check"].node, path, f"{check} needs {', '.join(needed)}")
            return {}
        given = self._entries(entries["with"].node, path, row.takes, needed=needed)
        axis = self._word(given, path, "axis") if "axis" in given else None
        found = {}
        for name, entry in given.items():
            read = READERS[row.takes[name]]
            value = read(self.values, entry.node, f"{path}.{name}", axis)
            if value is not None:
                found[name] = value
        return found

    def _entries(
        self, node: yaml.Node, where: str, known: Iterable[str], needed: Iterable[str] = ()
    ) -> dict[str, Entry]:
        """The entries of a mapping with known keys; unknown and missing ones are faults."""
        entries = {entry.key: entry for entry in self.source.mapping(node, where)}
        for name in [name for name in entries if name not in known]:
            path = f"{where}.{name[:40]}".lstrip(".")
            self.source.fault(entries.pop(name).key_node, path, f"unknown key; {nearest(name, known)}")
        missing = [name for name in needed if name not in entries]
        if missing and isinstance(node, yaml.MappingNode):
            self.source.fault(node, where, f"lacks {', '.join(missing)}")
        return entries

    def _items(self, entries: Mapping[str, Entry], name: str, where: str = "") -> list[yaml.Node]:
        """The items of a list; a single value is a list of one."""
        if name not in entries:
            return []
        node = entries[name].node
        one = isinstance(node, yaml.ScalarNode) and not is_null(node)
        return [node] if one else self.source.sequence(node, f"{where}.{name}".lstrip("."))

    def _word(self, entries: Mapping[str, Entry], where: str, name: str) -> str | None:
        return self.source.text(entries[name].node, f"{where}.{name}".lstrip(".")) if name in entries else None

    def _choice(self, entries: Mapping[str, Entry], where: str, name: str, known: Iterable[str]) -> str | None:
        word = self._word(entries, where, name)
        return None if word is None else self.values.one_of(entries[name].node, f"{where}.{name}", word, known)
