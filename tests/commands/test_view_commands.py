"""list, report, explain, repro and schemes, from outside: what they print, in any encoding."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import records
from commandline import PROGRAM, main, run, run_ids

from normexp.config.run import RunConfig
from normexp.storage.store import Store


class TestViews:
    def test_list_names_each_sweep(self, swept: Path) -> None:
        done = run("list", cwd=swept)
        assert done.returncode == 0
        assert "tiny" in done.stdout
        assert "2/2" in done.stdout
        assert "1 nonfinite" in done.stdout

    def test_list_of_nothing_says_so(self, tmp_path: Path) -> None:
        done = run("list", cwd=tmp_path)
        assert done.returncode == 0
        assert "no sweeps" in done.stdout

    def test_list_says_where_else_sweeps_are_and_which_are_packed(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        store.folder.parent.rename(tmp_path / "made")
        (tmp_path / "results").mkdir()
        (tmp_path / "made").rename(tmp_path / "results" / "deeper")
        assert main(["list"], tmp_path, monkeypatch) == 0
        assert capfd.readouterr().out == "more sweeps in results/deeper: normexp list --out results/deeper\n"
        packed = tmp_path / "results" / "old"
        packed.mkdir()
        (packed / "runs.tar.xz").write_bytes(b"")
        assert main(["list"], tmp_path, monkeypatch) == 0
        assert "packed: old: `normexp unpack results` restores them\n" in capfd.readouterr().out

    def test_report_of_a_half_finished_folder(self, swept: Path, tmp_path: Path) -> None:
        folder = tmp_path / "tiny"
        subprocess.run(["cp", "-r", str(swept / "results" / "tiny"), str(folder)], check=True)
        (folder / "runs" / run_ids(swept)[0] / "run.json").unlink()
        done = run("report", str(folder), cwd=tmp_path)
        assert done.returncode == 0
        assert "pending" in done.stdout
        assert "pending" in (folder / "summary.csv").read_text()

    def test_explain_tells_the_death_and_the_nearest_healthy_run(self, swept: Path) -> None:
        dead = next(name for name in run_ids(swept) if "lr1e+30" in name)
        done = run("explain", dead[-8:], cwd=swept)
        assert done.returncode == 0, done.stderr
        assert "nonfinite" in done.stdout
        assert "died: step" in done.stdout

    def test_repro_says_bit_identical(self, swept: Path) -> None:
        for name in run_ids(swept):
            done = run("repro", name, cwd=swept)
            assert (done.returncode, "bit-identical" in done.stdout) == (0, True), done.stdout + done.stderr

    def test_repro_without_a_curve_is_no_difference(self, tmp_path: Path) -> None:
        config = RunConfig(depth=1, width=8)
        store = Store(tmp_path / "results" / "tiny")
        store.begin(records.plan({"lr": [1e-3]}, name="tiny"), [], force=False)
        store.write(records.failed(config))
        done = run("repro", config.run_id, cwd=tmp_path)
        assert (done.returncode, "no curve is stored" in done.stderr) == (2, True), done.stderr

    def test_repro_names_the_first_step_that_differs(self, swept: Path, tmp_path: Path) -> None:
        subprocess.run(["cp", "-r", str(swept / "results"), str(tmp_path / "results")], check=True)
        name = next(name for name in run_ids(tmp_path) if "lr0.001" in name)
        curve = tmp_path / "results" / "tiny" / "runs" / name / "curve.csv"
        lines = curve.read_text().splitlines()
        step, rate, _, *rest = lines[3].split(",")
        lines[3] = ",".join([step, rate, "9.5", *rest])
        curve.write_text("\n".join(lines) + "\n")
        done = run("repro", name, cwd=tmp_path)
        assert done.returncode == 1
        assert "differs first at step 2: stored train_loss 9.5" in done.stdout

    def test_schemes_shows_every_row(self, tmp_path: Path) -> None:
        from normexp.schemes.schemes import SCHEMES

        done = run("schemes", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert {line.split()[0] for line in done.stdout.splitlines() if line.strip()} >= set(SCHEMES)

    @pytest.mark.parametrize("encoding", ["ascii", pytest.param("cp1252", marks=pytest.mark.slow)])
    def test_any_output_encoding(self, swept: Path, encoding: str) -> None:
        for arguments in (["list"], ["report", "results/tiny"], ["schemes"], ["explain", run_ids(swept)[0]]):
            done = subprocess.run(
                [*PROGRAM, *arguments],
                cwd=swept,
                env={**os.environ, "PYTHONIOENCODING": encoding},
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            done.stdout.decode(encoding)
