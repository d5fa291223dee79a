"""normexp sweep, from outside: streams, files, dry runs, exit codes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import records
from commandline import TINY, main, run

from normexp.config.run import RunConfig
from normexp.execution import worker
from normexp.execution.worker import Report
from normexp.records.record import RunRecord
from normexp.storage.store import Store


class TestSweep:
    def test_results_go_to_standard_output_and_progress_to_standard_error(self, swept: Path) -> None:
        done = run("sweep", "tiny.yaml", cwd=swept)
        assert done.returncode == 0
        assert "2 done, nothing to do" in done.stderr
        assert "results/tiny" in done.stdout
        assert "nothing to do" not in done.stdout

    def test_every_json_file_is_strict(self, swept: Path) -> None:
        def refuse(constant: str) -> None:
            raise AssertionError(constant)

        files = list((swept / "results").rglob("*.json"))
        assert len(files) >= 3
        for path in files:
            json.loads(path.read_text("utf-8"), parse_constant=refuse)

    def test_no_control_characters_in_a_pipe(self, swept: Path) -> None:
        done = run("sweep", "tiny.yaml", cwd=swept, FORCE_COLOR="", TERM="xterm")
        assert "\x1b" not in done.stdout + done.stderr
        assert "\r" not in done.stdout + done.stderr

    @pytest.mark.parametrize(("command", "each"), [("sweep", ""), ("edge", "s at each value of lr")])
    def test_a_dry_run_tells_what_exclude_removes_and_how_many_duplicates_were_dropped(
        self,
        command: str,
        each: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        grid = "grid: {optimizer: [adam, sgd], beta1: [0.9, 0.5]}\nzip: {order: [1, 2, 1], task_seed: [0, 0, 0]}"
        (tmp_path / "c.yaml").write_text(f"{TINY}{grid}\nexclude: [{{beta1: 0.9, order: 1}}, {{eps: 0.5}}]")
        assert main([command, "c.yaml", "--dry-run"], tmp_path, monkeypatch) == 0
        output, errors = capfd.readouterr()
        count = "3 point" if each else "1 point"
        assert f"exclude {{beta1: 0.9, order: 1}} removes {count}{each}\n" in output
        assert f"exclude {{eps: 0.5}} removes 0 points{each.removeprefix('s')}\n" in output
        assert f"warning: dropped {12 if each else 4} duplicate points\n" in errors
        assert "warning: exclude {eps: 0.5} removes no point\n" in errors

    def test_a_dry_run_writes_nothing(self, tmp_path: Path, config: Path) -> None:
        done = run("sweep", config.name, "--dry-run", cwd=tmp_path)
        assert done.returncode == 0
        assert "2 points, 2 runs, 0 redundant" in done.stdout
        assert "2 to do" in done.stdout
        assert [path.name for path in tmp_path.iterdir()] == [config.name]

    @pytest.mark.parametrize("hindrance", ["a file in the way", "another sweep", "foreign files", "a read-only folder"])
    def test_a_dry_run_refuses_what_the_run_refuses(
        self,
        tmp_path: Path,
        config: Path,
        hindrance: str,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        folder = tmp_path / "results" / "tiny"
        if hindrance == "a file in the way":
            folder.parent.write_text("")
        elif hindrance == "another sweep":
            plan = records.plan({"lr": [1e-3]}, name="tiny")
            Store(folder).begin(plan, [], force=False)
            Store(folder).write(records.done(next(iter(plan.configs.values())), 2.0))
        elif hindrance == "foreign files":
            folder.mkdir(parents=True)
            (folder / "thesis.doc").write_text("")
        else:
            folder.mkdir(parents=True)
            access = os.access  # root may write anywhere
            monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and access(path, mode))
        told = set()
        for arguments in (["--dry-run"], [])[: 1 if hindrance == "a read-only folder" else 2]:
            assert main(["sweep", config.name, *arguments], tmp_path, monkeypatch) == 2
            told.add(capfd.readouterr().err)
        assert len(told) == 1
        assert "results/tiny" in told.pop()

    def test_a_dry_run_asks_the_runs_of_all_sweeps(self, tmp_path: Path, config: Path) -> None:
        assert "no run is stored yet" in run("sweep", config.name, "--dry-run", cwd=tmp_path).stdout
        store = Store(tmp_path / "results" / "other")
        plan = records.plan({"lr": [1e-3]}, name="other")
        store.begin(plan, [], force=False)
        store.write(records.done(next(iter(plan.configs.values())), 2.0))
        assert "by stored runs" in run("sweep", config.name, "--dry-run", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("failing", "rates", "code", "told"),
    [
        ({1e-2}, "[1e-3, 1e-2, 1e-1]", 1, "lr 0.1: learned: loss"),
        ({1e-3, 1e-2}, "[1e-3, 1e-2]", 1, "failed: RuntimeError: broken"),
        (set(), "[1e29, 1e30]", 0, "nonfinite: "),
    ],
    ids=["one of three fails", "all fail", "all diverge"],
)
def test_the_exit_code_tells_failed_runs_and_a_death_is_none(
    failing: set[float],
    rates: str,
    code: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def train(config: RunConfig, report: Report, **rest: bool) -> RunRecord:
        if config.lr in failing:
            raise RuntimeError("broken")
        return whole(config, report, **rest)

    whole = worker._train
    monkeypatch.setattr(worker, "_train", train)
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
    base = TINY.replace("}", ", optimizer: sgd, norm: none}") if not failing else TINY
    (tmp_path / "tiny.yaml").write_text(f"{base}grid: {{lr: {rates}}}\n")
    assert main(["sweep", "tiny.yaml", "--executor", "inline"], tmp_path, monkeypatch) == code
    first = capfd.readouterr()
    assert len(re.findall(r"^\[\d/\d\] ", first.err, re.MULTILINE)) == rates.count(",") + 1
    assert told in first.err + first.out
    assert main(["sweep", "tiny.yaml", "--executor", "inline"], tmp_path, monkeypatch) == code
    again = capfd.readouterr()
    assert "nothing to do" in again.err
    assert ("--retry-failed runs" in again.err) == bool(failing)
