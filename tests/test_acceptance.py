"""Expected verdicts written into a claims file: wherever they stand, and nothing else of it changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from normexp.claims.acceptance import accept, with_expected
from normexp.claims.claim import Word
from normexp.claims.files import shipped
from normexp.claims.reading import load
from normexp.claims.verdict import Verdict

BODY = "section: '1', text: It, stated: so, kind: sweep, check: ends"
FILE = """\
# A text's claims.
title: Claims  # of one text
claims:
  - id: plain
    text: "It: learns"
    runs: {sweeps: pair, where: {norm: ln}}  # its runs
  # 2 ----------
  - id: noted
    expects: nothing
    note: |
      of two
      lines
  - id: nested
    elsewhere:
      at 1e-2: {lr: 1e-2}
      at 3e-2:
        lr: 3e-2   # high

  # 3 ----------
  - id: literal
    text: |
      of two
      lines

  # 4 ----------
  - {id: flow, text: "}", runs: {sweeps: pair}}
  - expected: reproduced
    id: has
  - id: empty
    expected:
  - id: last
    text: end"""
IDS = ("plain", "noted", "nested", "literal", "flow", "has", "empty", "last")


def claims_of(text: str) -> dict[str, dict[str, object]]:
    return {claim.pop("id"): claim for claim in yaml.safe_load(text)["claims"]}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_each_way_to_write_an_entry_takes_it(newline: str) -> None:
    text = FILE.replace("\n", newline)
    before, words = claims_of(text), dict(zip(IDS, [*Word][1:5] * 2, strict=True))
    after = with_expected(text, words)
    assert claims_of(after) == {name: before[name] | {"expected": str(words[name])} for name in IDS}
    assert [line for line in text.splitlines() if line not in after.splitlines()] == [
        '  - {id: flow, text: "}", runs: {sweeps: pair}}',
        "  - expected: reproduced",
        "    expected:",
    ]
    assert with_expected(after, words) == after


@pytest.mark.parametrize("name", IDS)
def test_no_other_line_changes(name: str) -> None:
    after = with_expected(FILE, {name: Word.ONLY_WHEN}).splitlines()
    lines = FILE.splitlines()
    changed = [line for line in after if line not in lines]
    assert len(changed) == 1
    assert "expected: only when" in changed[0]
    assert len(after) - len(lines) == (name not in ("flow", "has", "empty"))


def test_an_entry_that_is_not_named_keeps_what_it_expects() -> None:
    assert with_expected(FILE, {}) == FILE


@pytest.mark.parametrize("name", shipped())
def test_shipped_files_take_every_verdict(name: str, tmp_path: Path) -> None:
    (tmp_path / "claims.yaml").write_bytes(shipped()[name].read_bytes())
    file = load(tmp_path / "claims.yaml")
    given = [Verdict(claim=claim, word=Word.ONLY_WHEN, findings=()) for claim in file.claims]
    written = accept(file, given)
    assert written
    again = load(tmp_path / "claims.yaml")
    for old, new in zip(file.claims, again.claims, strict=True):
        assert new.expected is (Word.ONLY_WHEN if old.kind == "sweep" else old.expected)
    assert accept(again, given) == []
    quick = [Verdict(claim=claim, word=Word.REPRODUCED, findings=(), quick=True) for claim in file.claims]
    undecided = [Verdict(claim=claim, word=Word.NOT_ENOUGH, findings=()) for claim in file.claims]
    assert accept(again, [*quick, *undecided]) == []
