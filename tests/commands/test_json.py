"""What scripts read: strict JSON on standard output, and nothing else there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import records

from normexp.commands import app
from normexp.storage import packs
from normexp.storage.store import PACK, Store


def told(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Exit code, and what standard output holds as strict JSON in ASCII."""
    monkeypatch.setattr(sys, "argv", ["normexp", *arguments])
    with pytest.raises(SystemExit) as end:
        app.main()
    text = capfd.readouterr().out
    assert text.isascii()
    return int(end.value.code or 0), json.loads(text, parse_constant=pytest.fail)


def test_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert told(monkeypatch, capfd, "list", "--json", "--out", str(tmp_path)) == (
        0,
        {"schema": 1, "out": str(tmp_path), "sweeps": [], "packed": [], "more_in": []},
    )
    plan = records.plan({"lr": [1e-3, 1e-2, 0.1]}, name="größe")
    store = Store(tmp_path / "größe")
    store.begin(plan, [], force=False)
    for config, how in zip(plan.configs.values(), ["2.0", "nan@3"], strict=False):
        record = records.end(config, how)
        assert record is not None
        store.write(record)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "manifest.json").write_text("{")
    code, data = told(monkeypatch, capfd, "list", "--json", "--out", str(tmp_path))
    whole, torn = data["sweeps"]
    results = {"learned": 1, "nonfinite": 1}
    assert (code, whole) == (0, {"sweep": "größe", "runs": 3, "ended": 2, "results": results, "fault": None})
    assert (torn["sweep"], torn["runs"], "manifest.json" in torn["fault"]) == ("torn", None, True)
    packs.pack(store)
    (tmp_path / "sent").mkdir()
    (store.folder / PACK).rename(tmp_path / "sent" / PACK)
    code, above = told(monkeypatch, capfd, "list", "--json", "--out", str(tmp_path))
    assert (code, above["sweeps"], above["packed"]) == (0, data["sweeps"], ["sent"])
    (tmp_path / "deeper").mkdir()
    (tmp_path / "sent").rename(tmp_path / "deeper" / "sent")
    code, above = told(monkeypatch, capfd, "list", "--json", "--out", str(tmp_path))
    assert (code, above["packed"], above["more_in"]) == (0, [], [str(tmp_path / "deeper")])


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
    expected: reproduced
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


def test_claims_with_their_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
    (tmp_path / "few.yaml").write_text(CLAIMS)
    tiny = "{depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, batch: 4, steps: 3, eval_every: 2}"
    (tmp_path / "tiny.yaml").write_text(f"name: tiny\nbase: {tiny}\n")
    code, data = told(monkeypatch, capfd, "claims", "few.yaml", "--run", "--json", "--executor", "inline")
    assert (code, data["file"], sum(data["verdicts"].values())) == (3, "few.yaml", 2)
    cited, swept = data["claims"]
    assert (cited["verdict"], cited["expected"], cited["differs"]) == ("misquoted", "reproduced", True)
    assert cited["citation"] == {"source": "elsewhere", "says": "otherwise", "agrees": False, "own": False}
    assert (swept["verdict"], len(swept["findings"][0]["run_ids"])) == ("not reproduced", 1)
    assert (tmp_path / "results" / "few" / "REPORT.md").is_file()
