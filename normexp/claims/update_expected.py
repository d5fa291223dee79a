"""Verdicts of full runs, written into their claims file as the expected ones: every other character of it stays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import yaml

from normexp.claims.claim import ClaimFile, Kind, Verdict, Word
from normexp.claims.parser import load, parse
from normexp.config.sweep_file import text_of
from normexp.errors import UserError
from normexp.storage.files import rewrite

KEY = "expected"
NEWLINE = re.compile(r"\r\n|\n|\r")

Span = tuple[int, int]
"""Where something starts and ends in a text."""


def accept(file: ClaimFile, verdicts: Iterable[Verdict]) -> list[str]:
    """Set the expected verdict of each claim that full runs decide. Returns the ids of those that had another, or none.

    Raises UserError where the file cannot be read or written, or its form does not allow it.
    """
    decided = {
        verdict.claim.id: verdict.word
        for verdict in verdicts
        if verdict.claim.kind is Kind.SWEEP and not verdict.quick and verdict.word is not Word.NOT_ENOUGH
    }
    others = [claim.id for claim in file.claims if claim.id in decided and claim.expected is not decided[claim.id]]
    if others:
        words = {name: decided[name] for name in others}
        text = with_expected(text_of(file.path), words)
        _check(file, text, words)
        rewrite(file.path, text)
    return others


def read_again(file: ClaimFile, verdicts: Iterable[Verdict]) -> tuple[ClaimFile, list[Verdict]]:
    """The file as it is now, and the verdicts of its claims: for what is said of them afterwards. Raises UserError."""
    now = load(file.path)
    claims = {claim.id: claim for claim in now.claims}
    return now, [replace(verdict, claim=claims.get(verdict.claim.id, verdict.claim)) for verdict in verdicts]


def _check(file: ClaimFile, text: str, words: Mapping[str, Word]) -> None:
    """Raises UserError where a text says other than the file with these words."""
    wanted = {claim.id: words.get(claim.id, claim.expected) for claim in file.claims}
    try:
        found = {claim.id: claim.expected for claim in parse(text, file.path).claims}
    except UserError:
        found = {}
    if found != wanted:
        told = [f"  of {name}, {KEY}: {word}" for name, word in words.items()]
        why = "is in a form that --accept cannot write, or was changed meanwhile, and stays as it is"
        raise UserError(f"{file.path} {why}: write yourself", *told)


def with_expected(text: str, words: Mapping[str, Word]) -> str:
    """The YAML text of a claims file with these expected verdicts, by id: set where they stand, or added."""
    edits = []
    values = _values(text)
    for entry in _claims(yaml.compose(text, Loader=yaml.SafeLoader)):
        named = {key.value: (key, value) for key, value in entry.value}
        word = words.get(" ".join(named["id"][1].value.split()))
        if word is not None:
            edits.append(_edit(text, values, entry, named, word))
    for start, end, added in sorted(edits, reverse=True):
        text = text[:start] + added + text[end:]
    return text


def _claims(root: yaml.Node | None) -> list[yaml.MappingNode]:
    """The entries of a file that has been read as one of claims."""
    return [] if root is None else next(list(value.value) for key, value in root.value if key.value == "claims")


def _values(text: str) -> list[Span]:
    """Where single values, aliases and closing brackets stand: a node of an alias is where it was first written."""
    found = []
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        start, end = (mark.index if mark else 0 for mark in (event.start_mark, event.end_mark))
        if isinstance(event, yaml.ScalarEvent):  # a block of text ends where the next value begins
            found.append((start, max(start, len(text[:end].rstrip()))))
        elif isinstance(event, yaml.AliasEvent) or (isinstance(event, yaml.CollectionEndEvent) and start < end):
            found.append((start, end))
    return found


def _edit(
    text: str,
    values: Sequence[Span],
    entry: yaml.MappingNode,
    named: Mapping[str, tuple[yaml.Node, yaml.Node]],
    word: Word,
) -> tuple[int, int, str]:
    """What is put in place of what: start, end and text."""
    if KEY in named:
        key, value = named[KEY]
        start, end = next(span for span in values if span[0] >= key.end_mark.index)
        return start, end, " " * (start == end) + _quoted(word, value)
    first = entry.value[0][0]
    line = f"{_quoted(KEY, first)}: {_quoted(word, first)}"
    last = max(end for _, end in values if end <= entry.end_mark.index - entry.flow_style)
    if entry.flow_style:
        return last, last, f", {line}"
    indent = " " * first.start_mark.column
    newline = NEWLINE.search(text)
    assert newline is not None  # between two of the keys that a claim has
    if "note" in named:
        start = named["note"][0].start_mark.index
        return start, start, f"{line}{newline[0]}{indent}"
    rest = NEWLINE.search(text, last)
    end = rest.start() if rest else len(text)
    return end, end, f"{newline[0]}{indent}{line}"


def _quoted(word: str, like: yaml.Node) -> str:
    """In the quotes of another value: what is JSON stays so."""
    quote = like.style if isinstance(like, yaml.ScalarNode) and like.style in ("'", '"') else ""
    return f"{quote}{word}{quote}"
