"""Verdicts of full runs, written into their claims file as the expected ones: every other character of it stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import yaml

from normexp.claims.claim import ClaimFile, Kind, Word
from normexp.claims.reading import parse
from normexp.claims.verdict import Verdict
from normexp.config.sweepfile import text_of
from normexp.config.yamlfile import is_null
from normexp.results.atomic import write_atomically

KEY = "expected"


def accept(file: ClaimFile, verdicts: Iterable[Verdict]) -> list[str]:
    """Set the expected verdict of each claim that full runs decide. Returns the ids of those that had another, or none.

    Raises UserError where the file cannot be read or written.
    """
    decided = {
        verdict.claim.id: verdict.word
        for verdict in verdicts
        if verdict.claim.kind is Kind.SWEEP and not verdict.quick and verdict.word is not Word.NOT_ENOUGH
    }
    others = [claim.id for claim in file.claims if claim.id in decided and claim.expected is not decided[claim.id]]
    if others:
        text = with_expected(text_of(file.path), {name: decided[name] for name in others})
        parse(text, file.path)  # what could not be read again is not written
        write_atomically(file.path, text)
    return others


def with_expected(text: str, words: Mapping[str, Word]) -> str:
    """The YAML text of a claims file with these expected verdicts, by id: set where they stand, or added."""
    edits = []
    for entry in _claims(yaml.compose(text, Loader=yaml.SafeLoader)):
        named = {key.value: (key, value) for key, value in entry.value}
        word = words.get(named["id"][1].value)
        if word is not None:
            edits.append(_edit(text, entry, named, word))
    for start, end, added in sorted(edits, reverse=True):
        text = text[:start] + added + text[end:]
    return text


def _claims(root: yaml.Node | None) -> list[yaml.MappingNode]:
    """The entries of a file that has been read as one of claims."""
    return [] if root is None else next(list(value.value) for key, value in root.value if key.value == "claims")


def _edit(
    text: str, entry: yaml.MappingNode, named: Mapping[str, tuple[yaml.Node, yaml.Node]], word: Word
) -> tuple[int, int, str]:
    """What is put in place of what: start, end and text."""
    if KEY in named:
        value = named[KEY][1]
        lacking = is_null(value) and value.start_mark.index == value.end_mark.index
        return value.start_mark.index, value.end_mark.index, f"{' ' * lacking}{word}"
    line = f"{KEY}: {word}"
    if entry.flow_style:
        end = _end(text, entry.value[-1][1])
        return end, end, f", {line}"
    indent = " " * entry.value[0][0].start_mark.column
    if "note" in named:
        start = named["note"][0].start_mark.index
        return start, start, f"{line}\n{indent}"
    rest = text[_end(text, entry.value[-1][1]) :]
    end = len(text) - len(rest) + len(rest.partition("\n")[0])
    return end, end, f"\n{indent}{line}"


def _end(text: str, node: yaml.Node) -> int:
    """Where a node's last character ends. A block itself, of nodes or of text, ends where the next node begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    return len(text[: node.end_mark.index].rstrip())
