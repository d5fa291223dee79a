"""The installed program, from outside: exit codes, words, streams, signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import records

from normexp.cli import app
from normexp.execute import worker
from normexp.execute.worker import Report
from normexp.record import RunRecord
from normexp.results.store import Store
from normexp.run import RunConfig

PROGRAM = [sys.executable, "-m", "normexp"]
TINY = "base: {depth: 1, width: 8, hidden: 8, heads: 2, vocab: 8, batch: 4, steps: 3, eval_every: 2}\n"


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY + "grid: {lr: [1e-3, 1e-2]}\n")
    return path


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished sweep, one of whose runs died."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "tiny.yaml").write_text(TINY.replace("}", ", optimizer: sgd, norm: none}") + "grid: {lr: [1e-3, 1e30]}\n")
    done = run("sweep", "tiny.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def run_ids(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "results" / "tiny" / "runs").iterdir())


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


BAD = {
    "a misspelt key": ("grid: {lrr: [1e-3]}", "did you mean lr"),
    "a misplaced key": ("lr: [1e-3]", "base or grid"),
    "a duplicate key": ("grid: {lr: 1e-3}\ngrid: {lr: 1e-2}", "line 1"),
    "a tab": ("grid:\n\tdepth: [4]\n", "tab"),
    "an empty file": ("", "empty"),
    "a list": ("- depth: 4", "mapping"),
    "a wrong number": ("grid: {lr: [1e-3e]}", "1e-3e"),
    "a fraction of a layer": ("grid: {depth: [4.5]}", "whole number"),
    "values that clash": ("base: {width: 64, heads: 5}", "does not divide width 64"),
    "zipped axes of unequal length": ("zip: {depth: [4, 16, 64], lr: [1e-3, 3e-4]}", "depth has 3, lr has 2"),
    "an empty axis": ("grid: {depth: []}", "has no value"),
    "a negative warm-up": ("grid: {warmup: [-1]}", "-1 is out of range"),
    "an infinite rate": ("grid: {lr: [.inf]}", "'.inf' is not a number"),
    "code": ("grid: {lr: !!python/object/apply:os.system [ls]}", "the tag tag:yaml.org,2002:python"),
    "no YAML": ("base: {depth: 4", "not YAML"),
    "a name that is a path": ("name: ../up\nbase: {depth: 1}", "path separator"),
    "nothing to learn": (TINY + "grid: {sharpness: [0.01]}", "nothing to learn"),
    "too many runs": ("grid: {seed: {range: [1, 1000000, 1]}, depth: {range: [1, 1000, 1]}}", "--max-runs"),
}


def main(arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The program in this process, for speed."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["normexp", *arguments])
    with pytest.raises(SystemExit) as end:
        app.main()
    return int(end.value.code or 0)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_config_exits_with_2_and_writes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text, words = BAD[name]
    (tmp_path / "bad.yaml").write_text(text)
    assert main(["sweep", "bad.yaml"], tmp_path, monkeypatch) == 2
    errors = capfd.readouterr().err
    assert words in errors
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]


QUICK = ("values that clash",)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in BAD])
def test_bad_configs_are_refused_by_an_optimized_python_too(name: str, tmp_path: Path) -> None:
    text, words = BAD[name]
    (tmp_path / "bad.yaml").write_text(text)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("normexp")), "sweep", "bad.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONOPTIMIZE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, words in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep", "tiny.yaml", "--steps", "10"], "--steps: write steps=10, without dashes"),
        (["sweep", "tiny.yaml", "--init-gain=2"], "--init-gain: write init_gain=2, without dashes"),
        (["sweep", "tiny.yaml", "--jobs", "0"], "--jobs"),
        (["collapse", "--depth", "many"], "--layers: 'many' is not a number"),
    ],
)
def test_an_option_that_is_wrong_is_told_how_it_is_written(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(arguments, tmp_path, monkeypatch) == 2
    assert words in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "missing.yaml"],
        ["sweep", "."],
        ["sweep", "tiny.yaml", "lrr=1"],
        ["sweep", "tiny.yaml", "lr="],
        ["sweep", "tiny.yaml", "lr"],
        ["sweep", "tiny.yaml", "--only", "lr=5"],
        ["sweep", "tiny.yaml", "--executor", "magic"],
        ["sweep", "tiny.yaml", "--out", "tiny.yaml"],
        ["sweep", "tiny.yaml", "--nosuch"],
        ["nosuch"],
        ["report", "nosuch"],
        ["report", "."],
        ["explain", "nosuch"],
        ["repro", "nosuch"],
        ["collapse", "--setting", "magic"],
        ["collapse", "--layers", "many"],
        ["collapse", "--heads", "7"],
    ],
)
def test_bad_usage_exits_with_2_and_no_traceback(
    arguments: list[str],
    tmp_path: Path,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(arguments, tmp_path, monkeypatch) == 2
    errors = capfd.readouterr().err
    assert errors.strip()
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == [config.name]


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
    monkeypatch.setattr("normexp.views.report.write_figures", lambda store, report: None)
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
        from normexp.schemes import SCHEMES

        done = run("schemes", cwd=tmp_path)
        assert all(name in done.stdout for name in SCHEMES)

    @pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
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

    def test_a_closed_pipe_ends_quietly(self, swept: Path) -> None:
        command = f"{sys.executable} -m normexp schemes | true; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], cwd=swept, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr


def children(pid: int) -> list[int]:
    """All processes below this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry.name), *children(int(entry.name))]
    return found


def gone(pids: list[int], seconds: float) -> bool:
    """Whether all of them end within the time; zombies have ended."""

    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    deadline = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
class TestStopping:
    """Two long runs, and two short ones finished: then a signal to the driver, or to its whole group."""

    STOP_SECONDS = 10.0

    @pytest.fixture
    def driver(self, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
        (tmp_path / "long.yaml").write_text(
            TINY.replace("steps: 3, ", "") + "grid: {steps: [3, 200000], seed: [0, 1]}\n"
        )
        process = subprocess.Popen(
            [*PROGRAM, "sweep", "long.yaml", "--jobs", "3"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("results/long/runs/*/run.json"))) < 2 and process.poll() is None:
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.05)
        assert process.poll() is None, "two runs have not ended in a minute"
        time.sleep(0.3)
        with process:
            yield process
            process.kill()

    @pytest.mark.parametrize(
        ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
    )
    def test_a_signal_to_the_group(
        self, driver: subprocess.Popen[str], tmp_path: Path, signum: signal.Signals, code: int
    ) -> None:
        below = children(driver.pid)
        assert below
        os.killpg(driver.pid, signum)
        start = time.monotonic()
        _, errors = driver.communicate(timeout=30)
        assert driver.returncode == code
        assert time.monotonic() - start < self.STOP_SECONDS
        assert gone(below, self.STOP_SECONDS)
        assert "2 done, 2 to do; the same command continues" in errors
        assert "Traceback" not in errors
        assert not list((tmp_path / "results").rglob("*.tmp"))
        assert "pending" in (tmp_path / "results" / "long" / "summary.csv").read_text()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("signum", "code", "times", "group"),
        [
            (signal.SIGINT, 130, 2, True),
            (signal.SIGINT, 130, 1, False),
            (signal.SIGTERM, 143, 1, False),
            (signal.SIGTERM, 143, 2, True),
            (signal.SIGHUP, 129, 1, True),
        ],
    )
    def test_impatient_and_single_signals(
        self, driver: subprocess.Popen[str], tmp_path: Path, signum: signal.Signals, code: int, times: int, group: bool
    ) -> None:
        below = children(driver.pid)
        start = time.monotonic()
        for _ in range(times):
            (os.killpg if group else os.kill)(driver.pid, signum)
            time.sleep(0.2)
        _, errors = driver.communicate(timeout=30)
        assert driver.returncode == code
        assert time.monotonic() - start < self.STOP_SECONDS
        assert gone(below, self.STOP_SECONDS)
        assert "Traceback" not in errors
        assert not list((tmp_path / "results").rglob("*.tmp"))
        statuses = [json.loads(path.read_text())["status"] for path in (tmp_path / "results").rglob("run.json")]
        assert statuses == ["done", "done"]
        done = run("sweep", "long.yaml", "--only", "steps=3", cwd=tmp_path)
        assert (done.returncode, "2 done, nothing to do" in done.stderr) == (0, True), done.stderr

    def test_a_killed_driver_leaves_no_process_and_continues(
        self, driver: subprocess.Popen[str], tmp_path: Path
    ) -> None:
        below = children(driver.pid)
        driver.kill()
        driver.wait()
        assert gone(below, self.STOP_SECONDS)
        done = run("sweep", "long.yaml", "--only", "steps=3", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "2 done, nothing to do" in done.stderr

    def test_a_second_driver_on_the_folder_is_refused_at_once(
        self, driver: subprocess.Popen[str], tmp_path: Path
    ) -> None:
        done = run("sweep", "long.yaml", cwd=tmp_path)
        assert done.returncode == 2
        assert f"in use by pid {driver.pid}" in done.stderr
        assert driver.poll() is None
