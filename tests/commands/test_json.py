"""`--json` prints strict JSON on standard output, and nothing else there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import records
from commandline import invoke
from stored import saved

from normexp.storage import packs
from normexp.storage.store import PACK

CLAIMS = """
name: few
title: A few claims
sweeps: [tiny.yaml]
claims:
  - id: few.cited
    section: "1"
    text: It is said
    stated: so
    kind: cited
    source: elsewhere
    says: otherwise
    agrees: false
    expected: holds
  - id: few.swept
    section: "2"
    text: Pre learns
    stated: it does
    kind: sweep
    check: ends
    with: {outcomes: learned}
    runs: {sweeps: tiny}
    seeds: 1
"""


def read(*arguments: object) -> tuple[int, Any]:
    """Return the exit code and the strict ASCII JSON on standard output."""
    done = invoke(*arguments, "--json")
    assert done.out.isascii()
    return done.code, json.loads(done.out, parse_constant=pytest.fail)


def test_list(tmp_path: Path) -> None:
    empty = {"schema": 1, "out": str(tmp_path), "sweeps": [], "packed": [], "more_in": []}
    assert read("list", "--out", tmp_path) == (0, empty)
    plan = records.plan({"lr": [1e-3, 1e-2, 0.1]}, name="größe")
    store = saved(tmp_path, plan, ["2.0", "nan@3", "pending"])
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "manifest.json").write_text("{")
    code, data = read("list", "--out", tmp_path)
    whole, torn = data["sweeps"]
    results = {"learned": 1, "nonfinite": 1}
    assert (code, whole) == (0, {"sweep": "größe", "runs": 3, "ended": 2, "results": results, "fault": None})
    assert (torn["sweep"], torn["runs"], "manifest.json" in torn["fault"]) == ("torn", None, True)
    packs.pack(store)
    (tmp_path / "sent").mkdir()
    (store.folder / PACK).rename(tmp_path / "sent" / PACK)
    with_pack = read("list", "--out", tmp_path)[1]
    assert (with_pack["sweeps"], with_pack["packed"]) == (data["sweeps"], ["sent"])
    (tmp_path / "deeper").mkdir()
    (tmp_path / "sent").rename(tmp_path / "deeper" / "sent")
    nested = read("list", "--out", tmp_path)[1]
    assert (nested["packed"], nested["more_in"]) == ([], [str(tmp_path / "deeper")])


@pytest.mark.usefixtures("no_figures")
def test_claims_with_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.yaml").write_text(CLAIMS)
    tiny = "{depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, batch: 4, steps: 3, eval_every: 2}"
    (tmp_path / "tiny.yaml").write_text(f"name: tiny\nbase: {tiny}\n")
    code, data = read("claims", "few.yaml", "--run", "--executor", "inline")
    assert (code, data["file"], sum(data["verdicts"].values())) == (3, "few.yaml", 2)
    cited, swept = data["claims"]
    assert (cited["verdict"], cited["expected"], cited["differs"]) == ("source differs", "holds", True)
    assert cited["citation"] == {"source": "elsewhere", "says": "otherwise", "agrees": False, "own": False}
    assert (swept["verdict"], len(swept["findings"][0]["run_ids"])) == ("refuted", 1)
    assert (tmp_path / "results" / "few" / "REPORT.md").is_file()
