"""normexp sweep: streams, files, dry runs, exit codes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import records
from commandline import TINY, invoke, run

from normexp.config.run import RunConfig
from normexp.execution import worker
from normexp.execution.worker import Report
from normexp.records.record import RunRecord
from normexp.storage.store import Store


def test_results_go_to_standard_output_and_progress_to_standard_error(swept: Path) -> None:
    done = run("sweep", "tiny.yaml", cwd=swept, FORCE_COLOR="", TERM="xterm")
    assert done.returncode == 0
    assert "2 done, nothing to do" in done.stderr
    assert "results/tiny" in done.stdout
    assert "nothing to do" not in done.stdout
    assert not {"\x1b", "\r"} & {*done.stdout, *done.stderr}, "no control characters in a pipe"


def test_every_json_file_is_strict(swept: Path) -> None:
    files = list((swept / "results").rglob("*.json"))
    assert len(files) >= 3
    for path in files:
        json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)


class TestDryRun:
    @pytest.mark.parametrize(("command", "each"), [("sweep", ""), ("edge", "s at each value of lr")])
    def test_counts_excluded_and_duplicate_configs(self, command: str, each: str, tmp_path: Path) -> None:
        grid = "grid: {optimizer: [adam, sgd], beta1: [0.9, 0.5]}\nzip: {order: [1, 2, 1], task_seed: [0, 0, 0]}"
        (tmp_path / "c.yaml").write_text(f"{TINY}{grid}\nexclude: [{{beta1: 0.9, order: 1}}, {{eps: 0.5}}]")
        done = invoke(command, "c.yaml", "--dry-run", cwd=tmp_path)
        assert done.code == 0
        count = "3 config" if each else "1 config"
        assert f"exclude {{beta1: 0.9, order: 1}} removes {count}{each}\n" in done.out
        assert f"exclude {{eps: 0.5}} removes 0 configs{each.removeprefix('s')}\n" in done.out
        assert f"dropped {12 if each else 4} duplicate" in done.err
        assert "warning: exclude {eps: 0.5}" in done.err

    def test_writes_nothing(self, tmp_path: Path, config: Path) -> None:
        done = invoke("sweep", config.name, "--dry-run", cwd=tmp_path)
        assert done.code == 0
        assert [fact for fact in ("2 configs, 2 runs, 0 dup", "2 to do", "a guess") if fact not in done.out] == []
        assert [path.name for path in tmp_path.iterdir()] == [config.name]

    @pytest.mark.parametrize("obstacle", ["a file in the way", "another sweep", "foreign files", "a read-only folder"])
    def test_refuses_what_the_run_refuses(
        self, tmp_path: Path, config: Path, obstacle: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "results" / "tiny"
        if obstacle == "a file in the way":
            folder.parent.write_text("")
        elif obstacle == "another sweep":
            plan = records.plan({"lr": [1e-3]}, name="tiny")
            Store(folder).begin(plan, [], force=False)
            Store(folder).write(records.done(next(iter(plan.configs.values())), 2.0))
        elif obstacle == "foreign files":
            folder.mkdir(parents=True)
            (folder / "thesis.doc").write_text("")
        else:
            folder.mkdir(parents=True)
            access = os.access  # root may write anywhere
            monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and access(path, mode))
        options = [["--dry-run"]] if obstacle == "a read-only folder" else [["--dry-run"], []]
        refusals = [invoke("sweep", config.name, *option, cwd=tmp_path) for option in options]
        assert {refusal.code for refusal in refusals} == {2}
        (message,) = {refusal.err for refusal in refusals}
        assert "results/tiny" in message

    def test_estimates_the_time_from_runs_of_all_sweeps(self, tmp_path: Path, config: Path) -> None:
        store = Store(tmp_path / "results" / "other")
        plan = records.plan({"lr": [1e-3]}, name="other")
        store.begin(plan, [], force=False)
        store.write(records.done(next(iter(plan.configs.values())), 2.0))
        assert "stored runs" in invoke("sweep", config.name, "--dry-run", cwd=tmp_path).out


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    ("failing", "rates", "code", "fact"),
    [
        ({1e-2}, "[1e-3, 1e-2, 1e-1]", 1, "lr 0.1: learned: loss"),
        ({1e-3, 1e-2}, "[1e-3, 1e-2]", 1, "failed: RuntimeError: broken"),
        (set(), "[1e29, 1e30]", 0, "nonfinite: "),
    ],
    ids=["one of three fails", "all fail", "all diverge"],
)
def test_failed_runs_give_exit_code_1_and_diverged_runs_0(
    failing: set[float], rates: str, code: int, fact: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(config: RunConfig, report: Report, **rest: bool) -> RunRecord:
        if config.lr in failing:
            raise RuntimeError("broken")
        return original(config, report, **rest)

    original = worker._train
    monkeypatch.setattr(worker, "_train", train)
    base = TINY.replace("}", ", optimizer: sgd, norm: none}") if not failing else TINY
    (tmp_path / "tiny.yaml").write_text(f"{base}grid: {{lr: {rates}}}\n")
    first, again = (invoke("sweep", "tiny.yaml", "--executor", "inline", cwd=tmp_path) for _ in range(2))
    assert (first.code, again.code) == (code, code)
    assert len(re.findall(r"^\[\d/\d\] ", first.err, re.MULTILINE)) == rates.count(",") + 1
    assert fact in first.err + first.out
    assert "nothing to do" in again.err
    assert ("--retry-failed" in again.err) == bool(failing)
