"""Write the verdicts of full runs into their claims file as expected verdicts, leaving the rest of it unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import yaml

from normexp.claims.claim import Claim, ClaimFile, Kind, Verdict, Word
from normexp.claims.parser import load, parse
from normexp.config.sweep_file import text_of
from normexp.errors import UserError
from normexp.storage.files import rewrite

KEY = "expected"
NEWLINE = re.compile(r"\r\n|\n|\r")

Span = tuple[int, int]
"""Start and end of a part of a text."""


def accept(file: ClaimFile, verdicts: Iterable[Verdict]) -> list[str]:
    """Set the expected verdict of each claim that full runs decide, and return the ids of the changed claims.

    For other claims, a word of an earlier version is replaced if it matches their verdict. Raises UserError if the file
    cannot be read or written, or if its form cannot be edited.
    """
    decided = {
        verdict.claim.id: verdict.word
        for verdict in verdicts
        if not verdict.quick and verdict.word is not Word.NOT_ENOUGH
        if verdict.claim.kind is Kind.SWEEP or (verdict.claim.expected is not None and not verdict.differs)
    }
    changed = [claim.id for claim in file.claims if claim.id in decided and _written(claim) != decided[claim.id]]
    if changed:
        words = {name: decided[name] for name in changed}
        text = with_expected(text_of(file.path), words)
        _check(file, text, words)
        rewrite(file.path, text)
    return changed


def _written(claim: Claim) -> str:
    return claim.expected.written if claim.expected is not None else ""


def read_again(file: ClaimFile, verdicts: Iterable[Verdict]) -> tuple[ClaimFile, list[Verdict]]:
    """Read the file again, and return it with the verdicts attached to its current claims. Raises UserError."""
    now = load(file.path)
    claims = {claim.id: claim for claim in now.claims}
    return now, [replace(verdict, claim=claims.get(verdict.claim.id, verdict.claim)) for verdict in verdicts]


def _check(file: ClaimFile, text: str, words: Mapping[str, Word]) -> None:
    """Raise UserError unless the edited text has exactly these expected verdicts."""
    wanted = {claim.id: words.get(claim.id, _written(claim)) for claim in file.claims}
    try:
        parsed = {claim.id: _written(claim) for claim in parse(text, file.path).claims}
    except UserError:
        parsed = {}
    if parsed != wanted:
        lines = [f"  for {name}, {KEY}: {word}" for name, word in words.items()]
        reason = "--accept cannot edit this form of the file, or the file was changed meanwhile; it is left unchanged"
        raise UserError(f"{file.path}: {reason}. Write these lines by hand:", *lines)


def with_expected(text: str, words: Mapping[str, Word]) -> str:
    """Return the text of a claims file with these expected verdicts by id, replaced or added."""
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
    """Return the entries of a file that was parsed as a claims file."""
    return [] if root is None else next(list(value.value) for key, value in root.value if key.value == "claims")


def _values(text: str) -> list[Span]:
    """Return the spans of scalars, aliases and closing brackets. The node of an alias has the span of its anchor."""
    spans = []
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        start, end = (mark.index if mark else 0 for mark in (event.start_mark, event.end_mark))
        if isinstance(event, yaml.ScalarEvent):  # the end mark of a block scalar is the start of the next value
            spans.append((start, max(start, len(text[:end].rstrip()))))
        elif isinstance(event, yaml.AliasEvent) or (isinstance(event, yaml.CollectionEndEvent) and start < end):
            spans.append((start, end))
    return spans


def _edit(
    text: str,
    values: Sequence[Span],
    entry: yaml.MappingNode,
    named: Mapping[str, tuple[yaml.Node, yaml.Node]],
    word: Word,
) -> tuple[int, int, str]:
    """Return the edit that sets a verdict: start, end and new text."""
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
    assert newline is not None  # a claim has several keys on separate lines
    if "note" in named:
        start = named["note"][0].start_mark.index
        return start, start, f"{line}{newline[0]}{indent}"
    rest = NEWLINE.search(text, last)
    end = rest.start() if rest else len(text)
    return end, end, f"{newline[0]}{indent}{line}"


def _quoted(word: str, like: yaml.Node) -> str:
    """Quote a word like another value, so that JSON stays JSON."""
    quote = like.style if isinstance(like, yaml.ScalarNode) and like.style in ("'", '"') else ""
    return f"{quote}{word}{quote}"
