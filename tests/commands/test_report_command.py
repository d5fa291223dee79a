"""normexp claims --run and --report: the files of the report, from new runs and from packed runs."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from normexp.commands.app import app
from normexp.report import report

SWEEP = """\
name: pair
base: {depth: 1, width: 8, heads: 1, hidden: 8, steps: 20, eval_every: 10}
grid: {norm: [ln, none], lr: [1e-9, 1e-2], seed: [0, 1]}
table: {rows: [norm], columns: [lr]}
"""
CLAIMS = """\
name: mine
title: My claims
sweeps: [pair.yaml]
claims:
  - id: mine.rests
    section: "1"
    text: At a rate of nearly nothing it learns nothing
    stated: nothing
    kind: sweep
    check: ends
    with: {outcomes: plateau}
    seeds: 2
    runs: {sweeps: pair, where: {norm: ln, lr: 1e-9}}
    expected: holds
  - id: mine.quote
    section: "2"
    text: A paper says so
    stated: so
    kind: cited
    source: a paper
    says: otherwise
    agrees: no
"""
PNG = b"\x89PNG, or so"


@pytest.fixture(autouse=True)
def _quick_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take a second each and are tested elsewhere."""
    monkeypatch.setattr(report, "write_figures", lambda store, _: store.write_derived("figures/curves.png", PNG))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pair.yaml").write_text(SWEEP)
    (tmp_path / "mine.yaml").write_text(CLAIMS)
    return tmp_path


def run(folder: Path, *arguments: str) -> Result:
    more = ["--executor", "inline", "--jobs", "1"] if "--run" in arguments else []
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, [*arguments, *more])


OUT = Path("results") / "mine"
FILES = ("REPORT.md", "report.html", "verdicts.csv")


def test_the_report_of_packed_runs_is_that_of_the_runs(folder: Path) -> None:
    done = run(folder, "claims", "mine.yaml", "--run")
    assert done.exit_code == 0, done.stderr
    assert f"Report: {' and '.join(str(OUT / name) for name in FILES)}" in done.stdout
    made = folder / OUT
    written = {name: (made / name).read_bytes() for name in FILES}
    assert b"mine.rests | holds" in written["REPORT.md"]
    assert b"](pair/figures/curves.png)" in written["REPORT.md"]
    assert b"data:image/png;base64," in written["report.html"]
    assert run(folder, "pack", str(OUT)).exit_code == 0
    pack = (made / "pair" / "runs.tar.xz").read_bytes()
    shutil.rmtree(made)
    (made / "pair").mkdir(parents=True)
    (made / "pair" / "runs.tar.xz").write_bytes(pack)
    again = run(folder, "claims", "mine.yaml", "--report")
    assert again.exit_code == 0, again.stderr
    assert f"{OUT / 'pair'}: 8 runs restored from runs.tar.xz" in again.stderr
    assert {name: (made / name).read_bytes() for name in FILES} == written
    more = run(folder, "claims", "mine.yaml", "--run")
    assert "restored" not in more.stderr
    assert {name: (made / name).read_bytes() for name in FILES} == written


def test_the_report_names_missing_runs(folder: Path) -> None:
    done = run(folder, "claims", "mine.yaml", "--report")
    assert done.exit_code == 0, done.stderr
    text = (folder / OUT / "REPORT.md").read_text()
    assert "not enough runs" in text
    assert "8 of 8 runs" in text
    assert not (folder / OUT / "pair").exists()


def test_a_quick_report_has_a_separate_folder(folder: Path) -> None:
    done = run(folder, "claims", "mine.yaml", "--run", "--scale", "0.5")
    assert done.exit_code == 0, done.stderr
    text = (folder / "results" / "mine-quick" / "REPORT.md").read_text()
    assert text.splitlines()[0] == "# My claims (quick)"
    assert "| mine.rests | holds (quick) |" in text
    assert "normexp claims mine.yaml --run --scale 0.5" in text
    assert "--out" not in text
    assert not (folder / OUT).exists()
    assert run(folder, "claims", "mine.yaml", "--report", "--scale", "0.5", "--out", "else where").exit_code == 0
    elsewhere = (folder / "else where" / "REPORT.md").read_text()
    assert "normexp claims mine.yaml --run --scale 0.5 --out 'else where'\n" in elsewhere


@pytest.mark.parametrize("ids", [("mine.rests",), ("mine.rests", "mine.quote")])
def test_a_report_needs_all_claims(folder: Path, ids: tuple[str, ...]) -> None:
    done = run(folder, "claims", "mine.yaml", *ids, "--report")
    assert (done.exit_code == 0) is (len(ids) == 2), done.output
    assert (folder / OUT / "REPORT.md").exists() is (len(ids) == 2)
    if len(ids) == 1:
        assert "--report" in str(done.exception)
