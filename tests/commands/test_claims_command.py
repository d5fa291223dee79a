"""normexp claims with a user's file: runs, verdicts, exit codes, and quick runs kept apart from full runs."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import records
from rich.console import Console
from typer.testing import CliRunner, Result

from normexp.claims import evaluate
from normexp.claims.calculations import COMPUTED
from normexp.claims.checks import CHECKS
from normexp.claims.evidence import Evidence
from normexp.claims.measures import MEASURES
from normexp.claims.parser import load
from normexp.commands.app import app
from normexp.records.record import Status
from normexp.report import report
from normexp.storage import packs as packing
from normexp.storage.store import PACK, Store
from normexp.terminal import claims as view

SWEEP = """\
name: pair
base: {depth: 1, width: 8, heads: 1, hidden: 8, steps: 40, eval_every: 20}
sweeps:
  - label: learning
    grid: {norm: [ln, none], lr: [1e-3, 1e-2], seed: [0, 1]}
  - label: at rest
    base: {lr: 1e-9}
    grid: {norm: [ln, none], seed: [0, 1]}
"""
CLAIMS = """\
name: mine
title: My claims
sweeps: [pair.yaml]
claims:
  - id: mine.learns
    section: "1"
    text: It learns with a norm
    stated: learns
    kind: sweep
    check: ends
    with: {outcomes: learned}
    settings: [at rest]
    seeds: 2
    runs: {sweeps: pair, where: {norm: ln}}
    elsewhere: {learning at 1e-2: {setting: learning, lr: 1e-2}}
    expected: holds when
  - id: mine.counts
    section: "2"
    text: LayerNorm has 2d parameters
    stated: 2d
    quote: LayerNorm 有 2d 个参数
    translation: LayerNorm has 2d parameters
    weight: central
    kind: compute
    check: norms.parameters
    with: {figures: [64, 128, 64]}
  - id: mine.quote
    section: "3"
    text: A paper says so
    stated: so
    kind: cited
    source: a paper
    says: otherwise
    agrees: no
"""


@pytest.fixture(scope="module", autouse=True)
def _no_figures() -> Iterator[None]:
    """Figures take a second each and are tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "write_figures", lambda *_: None)
        yield


def run(folder: Path, *arguments: str) -> Result:
    more = ["--executor", "inline", "--jobs", "1"] if "--run" in arguments else []
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, ["claims", *arguments, *more])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("claims")
    (made / "pair.yaml").write_text(SWEEP)
    (made / "mine.yaml").write_text(CLAIMS)
    return made


@pytest.fixture(scope="module")
def ran(folder: Path) -> Result:
    return run(folder, "mine.yaml", "mine.learns", "--run")


def test_without_runs_nothing_differs(tmp_path: Path) -> None:
    (tmp_path / "pair.yaml").write_text(SWEEP)
    (tmp_path / "mine.yaml").write_text(CLAIMS)
    done = run(tmp_path, "mine.yaml")
    assert done.exit_code == 0, done.stderr
    assert "holds 1, source differs 1, not enough runs 1" in done.stdout
    assert not (tmp_path / "results").exists()


def test_one_claim_runs_only_its_points_and_shows_its_evidence(folder: Path, ran: Result) -> None:
    assert ran.exit_code == 0, ran.stderr
    stored = {path.name for path in (folder / "results" / "mine" / "pair" / "runs").iterdir()}
    assert len(stored) == 4, "with a norm: two at rest and two at the higher learning rate"
    assert all("-ln-" in run_id for run_id in stored)
    assert "Verdict: holds when learning at 1e-2." in ran.stdout
    assert "at rest: refuted, 2 seeds" in ran.stdout
    assert {line.split()[0] for line in ran.stdout.splitlines() if line.startswith("d1-")} == stored
    assert ran.stdout.count("\nd1-ln-") == 4
    explained = next(line for line in ran.stdout.splitlines() if line.startswith("normexp explain"))
    assert explained.split()[2] in stored
    assert explained.endswith(" --out results/mine")
    commands = [line for line in ran.stdout.splitlines() if line.startswith("normexp sweep")]
    assert commands == [
        "normexp sweep pair.yaml --out results/mine --only norm=ln --only 'label=at rest'",
        "normexp sweep pair.yaml --out results/mine --only norm=ln --only label=learning --only lr=0.01",
    ]


def test_a_verdict_that_differs_exits_with_3(folder: Path, ran: Result) -> None:
    assert ran.exit_code == 0
    (folder / "other.yaml").write_text(CLAIMS.replace("expected: holds when", "expected: holds"))
    done = run(folder, "other.yaml", "--out", "results/mine")
    assert done.exit_code == 3
    assert "mine.learns: holds when learning at 1e-2" in done.stdout


def test_only_verdicts_of_full_runs_are_accepted(folder: Path, ran: Result) -> None:
    assert ran.exit_code == 0
    text = CLAIMS.replace("expected: holds when", "expected: holds")
    (folder / "accepted.yaml").write_text(text)
    options = ("accepted.yaml", "--out", "results/mine")
    refused = run(folder, *options, "--accept", "--quick")
    assert "--quick" in str(refused.exception)
    assert (folder / "accepted.yaml").read_text() == text
    done = run(folder, *options, "--accept", "--report", "--json")
    assert done.exit_code == 0, done.stderr
    assert (folder / "accepted.yaml").read_text() == CLAIMS
    claims = {claim["id"]: claim for claim in json.loads(done.stdout)["claims"]}
    assert (claims["mine.learns"]["expected"], claims["mine.learns"]["differs"]) == ("holds when", False)
    assert "expects" not in (folder / "results" / "mine" / "REPORT.md").read_text()
    assert run(folder, *options).exit_code == 0


def test_the_report_is_written_even_if_the_claims_file_cannot_be_changed(folder: Path, ran: Result) -> None:
    assert ran.exit_code == 0
    text = CLAIMS.replace("expected: holds when", "expected: &word holds\n    note: *word")
    (folder / "anchored.yaml").write_text(text)
    page = folder / "results" / "mine" / "REPORT.md"
    page.unlink(missing_ok=True)
    done = run(folder, "anchored.yaml", "--out", "results/mine", "--accept", "--report")
    assert "mine.learns" in str(done.exception)
    assert "holds" in page.read_text()
    assert (folder / "anchored.yaml").read_text() == text


def test_quick_runs_are_separate_and_their_verdicts_never_differ(folder: Path, ran: Result) -> None:
    assert ran.exit_code == 0
    (folder / "quick.yaml").write_text(CLAIMS.replace("expected: holds when", "expected: holds"))
    lacking = run(folder, "quick.yaml", "mine.learns", "--quick", "--out", "results/mine")
    assert "Verdict: not enough runs (quick)." in lacking.stdout
    done = run(folder, "quick.yaml", "--run", "--scale", "0.5", "--out", "results/mine")
    assert done.exit_code == 0, done.stderr
    assert "holds when learning at 1e-2 (quick)" in done.stdout
    assert "holds 1, holds when 1, source differs 1" in done.stdout
    assert "2 seeds" in run(folder, "mine.yaml", "mine.learns").stdout


def test_outdated_runs_count_as_missing(folder: Path, ran: Result, tmp_path: Path) -> None:
    assert ran.exit_code == 0
    shutil.copytree(folder / "results", tmp_path / "results")
    for path in (tmp_path / "results" / "mine" / "pair" / "runs").glob("*/run.json"):
        text = path.read_text()
        assert '"numerics": ' in text
        path.write_text("\n".join(' "numerics": 0,' if '"numerics": ' in line else line for line in text.splitlines()))
    done = run(folder, "mine.yaml", "mine.learns", "--out", str(tmp_path / "results" / "mine"))
    assert "Verdict: not enough runs." in done.stdout
    assert "2 outdated" in done.stdout
    again = run(folder, "mine.yaml", "mine.learns", "--run", "--out", str(tmp_path / "results" / "mine"))
    assert "Verdict: holds when learning at 1e-2." in again.stdout


def test_failed_runs_are_rerun(folder: Path, ran: Result, tmp_path: Path) -> None:
    assert ran.exit_code == 0
    shutil.copytree(folder / "results", tmp_path / "results")
    store = Store(tmp_path / "results" / "mine" / "pair")
    run_id, record = next((name, r) for name, r in store.records().items() if r.config.lr == 1e-9)
    store.write(records.failed(record.config))
    again = run(folder, "mine.yaml", "mine.learns", "--run", "--out", str(tmp_path / "results" / "mine"))
    assert again.exit_code == 0, again.stderr
    assert store.records()[run_id].status is Status.DONE


def test_packed_runs_are_restored(folder: Path, ran: Result, tmp_path: Path) -> None:
    assert ran.exit_code == 0
    shutil.copytree(folder / "results", tmp_path / "results")
    out, store = str(tmp_path / "results" / "mine"), Store(tmp_path / "results" / "mine" / "pair")
    packing.pack(store)
    lost = sorted(store.ended())[0]
    shutil.rmtree(store.folder / "runs" / lost)
    with store.lock():
        busy = run(folder, "mine.yaml", "mine.learns", "--out", out)
    assert busy.exit_code == 0, busy.stderr
    assert "in use" in busy.stderr
    assert lost not in store.ended()
    done = run(folder, "mine.yaml", "mine.learns", "--out", out)
    assert f"1 run restored from {PACK}, {len(store.ended()) - 1} " in done.stderr
    assert lost in store.ended()
    (store.folder / PACK).write_bytes(b"no pack")
    damaged = run(folder, "mine.yaml", "mine.learns", "--out", out)
    assert damaged.exit_code == 0
    assert "is damaged" in damaged.stderr


@pytest.mark.parametrize("good", ["a_first", "b_second"])
@pytest.mark.parametrize("other", ["failed", "outdated"])
def test_of_two_stored_runs_the_usable_one_is_taken(tmp_path: Path, good: str, other: str) -> None:
    plan = records.plan({"norm": ["ln"]}, depth=1)
    run_id, config = next(iter(plan.configs.items()))
    usable = records.done(config, 1.9)
    useless = records.failed(config) if other == "failed" else replace(records.done(config, 1.8), numerics=0)
    for name in ("a_first", "b_second"):
        store = Store(tmp_path / name)
        store.begin(plan, [], force=False)
        store.write(usable if name == good else useless)
    found = Evidence(tmp_path).records(plan)[run_id]
    assert found.status is Status.DONE
    assert not found.outdated


@pytest.mark.parametrize("columns", [80, 160])
def test_tables_fit_the_width_and_lose_nothing(folder: Path, columns: int) -> None:
    lines = printed(folder, columns)
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if "…" in line]
    words = {word for line in lines for word in line.split()}
    everything = [CLAIMS.split("text: ")[number].splitlines()[0] for number in (1, 2, 3)]
    assert {word.rstrip(".") for text in everything for word in text.split()} <= {word.rstrip(".") for word in words}
    assert {"learns", "counts", "quote", "differs", "otherwise"} <= {word.rstrip(".") for word in words}


def test_a_calculation_is_shown_with_its_figures_and_command(folder: Path) -> None:
    lines = run(folder, "mine.yaml", "mine.counts").stdout.splitlines()
    assert [line for line in lines if line.startswith("Result: holds. ") and "64, 128, 64" in line]
    assert lines[-1] == "normexp claims mine.yaml mine.counts"


def test_the_text_s_own_words_are_shown(folder: Path) -> None:
    words = "“LayerNorm 有 2d 个参数” (LayerNorm has 2d parameters)"
    assert words in run(folder, "mine.yaml", "mine.counts").stdout
    (claim,) = json.loads(run(folder, "mine.yaml", "mine.counts", "--json").stdout)["claims"]
    assert (claim["quote"], claim["weight"]) == ("LayerNorm 有 2d 个参数", "central")
    assert claim["translation"] == "LayerNorm has 2d parameters"
    assert "The text: " not in run(folder, "mine.yaml", "mine.quote").stdout


def test_a_claim_that_is_not_checked_says_why(tmp_path: Path) -> None:
    entry = 'id: some.said, section: "1", text: It is said, stated: said, kind: none, why: nobody is named'
    (tmp_path / "some.yaml").write_text(f"claims: [{{{entry}}}]\n")
    shown = run(tmp_path, "some.yaml", "some.said")
    assert shown.exit_code == 0, shown.stderr
    assert {"Verdict: not checkable here.", "Why: nobody is named."} <= set(shown.stdout.splitlines())
    assert "To repeat" not in shown.stdout
    (claim,) = json.loads(run(tmp_path, "some.yaml", "--json").stdout)["claims"]
    assert (claim["verdict"], claim["why"]) == ("not checkable here", "nobody is named")
    assert "nobody is named" in run(tmp_path, "some.yaml").stdout


def test_each_claim_is_one_line_in_a_pipe(folder: Path) -> None:
    lines = printed(folder, 10_000)
    assert len([line for line in lines if line.startswith("mine.")]) == 3


def test_checks_measures_and_calculations_are_listed(folder: Path) -> None:
    done = run(folder, "--checks")
    assert done.exit_code == 0, done.stderr
    for word in (*CHECKS, *MEASURES, *COMPUTED):
        assert f"\n{word} " in done.stdout


def printed(folder: Path, columns: int) -> Sequence[str]:
    file = load(folder / "mine.yaml")
    verdicts = evaluate.judged(file, file.claims, folder / "nowhere")
    console = Console(file=StringIO(), width=columns, color_system=None)
    console.print(view.listing(verdicts, file.title))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()
