"""Expected verdicts are written into a claims file in any YAML form, and nothing else of it changes."""

from __future__ import annotations

import codecs
import json
import shutil
from pathlib import Path

import pytest
import yaml

from normexp.claims.claim import Claim, ClaimFile, Verdict, Word
from normexp.claims.files import shipped
from normexp.claims.parser import load
from normexp.claims.update_expected import accept, with_expected
from normexp.errors import UserError

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
  - expected: holds
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
        "  - expected: holds",
        "    expected:",
    ]
    assert with_expected(after, words) == after


@pytest.mark.parametrize("name", IDS)
def test_no_other_line_changes(name: str) -> None:
    after = with_expected(FILE, {name: Word.HOLDS_WHEN}).splitlines()
    lines = FILE.splitlines()
    changed = [line for line in after if line not in lines]
    assert len(changed) == 1
    assert "expected: holds when" in changed[0]
    assert len(after) - len(lines) == (name not in ("flow", "has", "empty"))


def test_an_entry_that_is_not_named_keeps_what_it_expects() -> None:
    assert with_expected(FILE, {}) == FILE


@pytest.mark.parametrize("name", shipped())
def test_shipped_files_take_every_verdict(name: str, tmp_path: Path) -> None:
    (tmp_path / "claims.yaml").write_bytes(shipped()[name].read_bytes())
    shutil.copytree(shipped()[name].parent / "sweeps", tmp_path / "sweeps")
    file = load(tmp_path / "claims.yaml")
    given = [Verdict(claim=claim, word=Word.HOLDS_WHEN, findings=()) for claim in file.claims]
    written = accept(file, given)
    assert written
    again = load(tmp_path / "claims.yaml")
    for old, new in zip(file.claims, again.claims, strict=True):
        if old.kind == "sweep":
            assert expected(new) == "holds when"
        else:
            assert new.expected == old.expected
    assert accept(again, given) == []
    quick = [Verdict(claim=claim, word=Word.HOLDS, findings=(), quick=True) for claim in file.claims]
    undecided = [Verdict(claim=claim, word=Word.NOT_ENOUGH, findings=()) for claim in file.claims]
    assert accept(again, [*quick, *undecided]) == []


REAL = """\
sweeps: [pair.yaml]
claims:
  - id: of.one
    section: &same "1"
    text: It learns
    stated: so
    kind: sweep
    check: ends
    with: &ends {outcomes: [learned]}
    runs:
      sweeps: pair
      where: &where {norm: ln}
    expected: &as >-
      holds
  - section: *same
    text: It learns
    stated: so
    kind: sweep
    check: ends
    with: *ends
    expected: *as
    runs: {sweeps: pair, where: *where}
    id: " of.two "
  - id: of.three
    section: *same
    text: It learns
    stated: so
    kind: sweep
    check: ends
    with: *ends
    runs:
      sweeps: pair
      where: *where
  - {"id": "of.four", "section": "1", "text": "so", "stated": "so", "kind": "sweep", "check": "ends", "runs":
      {"sweeps": "pair"}, "with": *ends}
"""


def read(folder: Path, text: str) -> ClaimFile:
    (folder / "pair.yaml").write_text("base: {depth: 1}")
    (folder / "claims.yaml").write_bytes(text.encode())
    return load(folder / "claims.yaml")


def expected(claim: Claim) -> str:
    return claim.expected.written if claim.expected else ""


def judged(file: ClaimFile, word: Word, *names: str) -> list[Verdict]:
    return [Verdict(claim=claim, word=word, findings=()) for claim in file.claims if claim.id in names]


@pytest.mark.parametrize("name", ["of.two", "of.three", "of.four"])
def test_an_alias_stands_where_it_is_written(name: str, tmp_path: Path) -> None:
    """The anchor is in the entry of another claim, whose verdict must not change."""
    file = read(tmp_path, REAL)
    before = {claim.id: expected(claim) for claim in file.claims}
    assert accept(file, judged(file, Word.HOLDS_WHEN, name)) == [name]
    assert {c.id: expected(c) for c in load(file.path).claims} == before | {name: "holds when"}
    assert len(set(REAL.splitlines()) - set(file.path.read_text().splitlines())) == (name != "of.three")


def test_a_word_of_an_earlier_version_is_replaced_where_it_matches_the_verdict(tmp_path: Path) -> None:
    old = REAL.replace("holds", "reproduced")
    cited = (
        '  - {id: cited, section: "1", text: t, stated: s, kind: cited, source: s, says: s, agrees: yes, expected: W}\n'
    )
    file = read(
        tmp_path, old + cited.replace("W", "reproduced") + cited.replace("id: c", "id: un").replace("W", "misquoted")
    )
    words = {"of.two": Word.HOLDS, "cited": Word.SOURCE_AGREES, "united": Word.SOURCE_AGREES}
    given = [Verdict(claim=claim, word=words[claim.id], findings=()) for claim in file.claims if claim.id in words]
    assert accept(file, given) == ["of.two", "cited"], "the other differs from what the file expects"
    assert [expected(claim) for claim in load(file.path).claims[-2:]] == ["source agrees", "misquoted"]


def test_json_stays_json() -> None:
    after = with_expected(
        '{"claims": [{"id": "a", "x": 1}, {"expected": "", "id": "b"}]}', dict.fromkeys("ab", [*Word][1])
    )
    assert json.loads(after)["claims"] == [
        {"id": "a", "x": 1, "expected": "holds when"},
        {"expected": "holds when", "id": "b"},
    ]


def test_a_form_that_cannot_be_edited_is_an_error_and_stays(tmp_path: Path) -> None:
    """The verdict is the anchor of an alias in another claim."""
    file = read(tmp_path, REAL)
    with pytest.raises(UserError, match=r"claims.yaml: .*\n.* of.one, expected: holds when"):
        accept(file, judged(file, Word.HOLDS_WHEN, "of.one"))
    assert file.path.read_text() == REAL


def test_mark_newlines_and_rights_stay_and_a_link_is_written_through(tmp_path: Path) -> None:
    text = "\ufeff" + REAL.replace("\n", "\r\n")
    file = read(tmp_path, text)
    real = file.path.rename(tmp_path / "real.yaml")
    real.chmod(0o640)
    file.path.symlink_to(real)
    assert accept(file, judged(file, Word.HOLDS_WHEN, "of.three"))
    assert file.path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.read_bytes().startswith(codecs.BOM_UTF8)
    assert real.read_bytes().count(b"\n") == real.read_bytes().count(b"\r\n") == text.count("\n") + 1
