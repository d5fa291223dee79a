"""list, report, explain, repro and schemes: what they print, in any encoding."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import records
from commandline import PROGRAM, invoke, run_ids

from normexp.config.run import RunConfig
from normexp.schemes.schemes import SCHEMES
from normexp.storage.store import Store


def test_list_names_each_sweep(swept: Path, tmp_path: Path) -> None:
    done = invoke("list", cwd=swept)
    assert done.code == 0
    assert [fact for fact in ("tiny", "2/2", "1 nonfinite") if fact not in done.out] == []
    done = invoke("list", cwd=tmp_path)
    assert (done.code, "no sweeps" in done.out) == (0, True)


def test_list_names_nested_and_packed_sweeps(store: Store, tmp_path: Path) -> None:
    store.folder.parent.rename(tmp_path / "made")
    (tmp_path / "results").mkdir()
    (tmp_path / "made").rename(tmp_path / "results" / "deeper")
    assert "`normexp list --out results/deeper`" in invoke("list", cwd=tmp_path).out
    packed = tmp_path / "results" / "old"
    packed.mkdir()
    (packed / "runs.tar.xz").write_bytes(b"")
    assert "packed: old: `normexp unpack results`" in invoke("list", cwd=tmp_path).out


def test_report_of_a_half_finished_folder(swept: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    shutil.copytree(swept / "results" / "tiny", folder)
    (folder / "runs" / run_ids(swept)[0] / "run.json").unlink()
    done = invoke("report", folder)
    assert (done.code, "pending" in done.out) == (0, True)
    assert "pending" in (folder / "summary.csv").read_text()


def test_explain_shows_the_outcome_of_a_part_of_a_run_id(swept: Path) -> None:
    nonfinite = next(name for name in run_ids(swept) if "lr1e+30" in name)
    done = invoke("explain", nonfinite[-8:], cwd=swept)
    assert (done.code, nonfinite in done.out, "outcome: nonfinite" in done.out) == (0, True, True)


class TestRepro:
    def test_equal_runs_are_bit_identical(self, swept: Path) -> None:
        for name in run_ids(swept):
            done = invoke("repro", name, cwd=swept)
            assert (done.code, "bit-identical" in done.out) == (0, True), done

    def test_a_run_without_a_curve_cannot_be_compared(self, tmp_path: Path) -> None:
        config = RunConfig(depth=1, width=8)
        store = Store(tmp_path / "results" / "tiny")
        store.begin(records.plan({"lr": [1e-3]}, name="tiny"), [], force=False)
        store.write(records.failed(config))
        done = invoke("repro", config.run_id, cwd=tmp_path)
        assert (done.code, f"{config.run_id}: " in done.err, "no curve" in done.err) == (2, True, True)

    def test_the_first_step_that_differs_is_named(self, swept: Path, tmp_path: Path) -> None:
        shutil.copytree(swept / "results", tmp_path / "results")
        name = next(name for name in run_ids(tmp_path) if "lr0.001" in name)
        curve = tmp_path / "results" / "tiny" / "runs" / name / "curve.csv"
        lines = curve.read_text().splitlines()
        step, rate, _, *rest = lines[3].split(",")
        lines[3] = ",".join([step, rate, "9.5", *rest])
        curve.write_text("\n".join(lines) + "\n")
        done = invoke("repro", name, cwd=tmp_path)
        assert (done.code, "step 2: stored train_loss 9.5" in done.out) == (1, True)


def test_schemes_shows_every_row() -> None:
    done = invoke("schemes")
    assert done.code == 0
    assert {line.split()[0] for line in done.out.splitlines() if line.strip()} >= set(SCHEMES)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_any_output_encoding(swept: Path, encoding: str) -> None:
    for arguments in (["list"], ["report", "results/tiny"], ["schemes"], ["explain", run_ids(swept)[0]]):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run([*PROGRAM, *arguments], cwd=swept, env=environment, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        done.stdout.decode(encoding)
