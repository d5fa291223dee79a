"""Invalid configs and arguments exit with 2, with a helpful message and no traceback, and write nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import TINY, invoke

from normexp.storage.store import PACK

BAD = {
    "a misspelt key": ("grid: {lrr: [1e-3]}", "did you mean lr"),
    "no YAML": ("base: {depth: 4", "YAML"),
    "a name that is a path": ("name: ../up\nbase: {depth: 1}", "name"),
    "no learnable gap": (TINY + "grid: {sharpness: [0.01]}", "sharpness"),
    "infinite references": ("base: {vocab: 48, seq_len: 64, task_seed: 2}\ngrid: {sharpness: [1e6]}", "1e+06"),
    "too many runs": ("grid: {seed: {range: [1, 1000000, 1]}, depth: {range: [1, 1000, 1]}}", "--max-runs"),
}
"""Configs and a fact of the message. tests/config/test_config_faults.py has all faults of a text."""
OPTIMIZED = [str(Path(sys.executable).with_name("normexp")), "sweep", "bad.yaml"]


@pytest.mark.parametrize("optimized", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BAD)
def test_an_invalid_config_exits_with_2_and_writes_nothing(name: str, optimized: bool, tmp_path: Path) -> None:
    text, fact = BAD[name]
    (tmp_path / "bad.yaml").write_text(text)
    if optimized:
        environment = {**os.environ, "PYTHONOPTIMIZE": "1"}
        done = subprocess.run(OPTIMIZED, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        code, err = done.returncode, done.stderr
    else:
        code, _, err = invoke("sweep", "bad.yaml", cwd=tmp_path)
    assert (code, fact in err, "Traceback" in err) == (2, True, False), err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]


@pytest.mark.parametrize("name", ["sweep", "edge", "report", "explain", "repro", "compare", "plot", "export", "merge"])
def test_a_command_names_its_missing_argument(name: str) -> None:
    done = invoke(name)
    assert (done.code, "Missing argument" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["sweep", "tiny.yaml", "--steps", "10"], ["--steps", "steps=10"]),
        (["sweep", "tiny.yaml", "--steps"], ["--steps", "steps=VALUE"]),
        (["sweep", "tiny.yaml", "--init-gain=2"], ["--init-gain", "init_gain=2"]),
        (["sweep", "tiny.yaml", "--d_model", "10"], ["--d_model", "width=10"]),
        (["sweep", "tiny.yaml", "--jobs", "0"], ["--jobs"]),
        (["sweep", "tiny.yaml", "--workers", "1"], ["--workers", "--jobs"]),
        (["sweep", "depth=3", "tiny.yaml"], ["depth=3: no such file"]),
        (["sweep", "tiny.yaml", "depth", "=", "3"], ["depth = 3", "depth=3"]),
        (["sweep", "tiny.yaml", "lr=", "1e-3"], ["lr= 1e-3", "lr=1e-3"]),
        (["sweep", "tiny.yaml", "lr", "=1e-3"], ["lr =1e-3", "lr=1e-3"]),
        (["sweep", "tiny.yaml", "norm=lm"], ["lm", "--plugin"]),
        (["sweep", "tiny.yaml", "--scale", "0,5"], ["'0,5'", "0.5"]),
        (["sweep", "tiny.yaml", "--timeout", "1e−1"], ["'1e−1'", "1e-1"]),
        (["claims", "--scale", "0,03"], ["'0,03'", "0.03"]),
        (["edge", "tiny.yaml", "--low", "1e−5"], ["--low: '1e−5'", "1e-5"]),
        (["edge", "tiny.yaml", "--resolution", "1,5"], ["--resolution: '1,5'", "1.5"]),
        (["sweep", "tiny.yaml", "--only", "lr=0,001"], ["0,001", "lr=0.001"]),
        (["sweep", "tiny.yaml", "lr=1e−3"], ["'1e−3'", "1e-3"]),
        (["collapse", "--num-heads", "2"], ["--num-heads", "write --heads"]),
        (["collapse", "--lr", "0,01"], ["--lr 0,01", "0.01"]),
        (["collapse", "--lr", "1e−2"], ["--lr: '1e−2'", "1e-2"]),
        (["collapse", "--depth", "many"], ["--layers: 'many'"]),
        (["collapse", "--lr", "1e-3,1e-2"], ["--lr 1e-3,1e-2", "normexp sweep"]),
        (["collapse", "--seed", "[0,1]"], ["--seed [0,1]", "one value"]),
        (["collapse", "--norm", "ln,rms"], ["--norm ln,rms", "one value"]),
    ],
)
@pytest.mark.usefixtures("config")
def test_an_invalid_option_is_corrected(arguments: list[str], facts: list[str], tmp_path: Path) -> None:
    done = invoke(*arguments, cwd=tmp_path)
    assert done.code == 2
    assert [fact for fact in facts if fact not in done.err] == [], done.err


SWEEP = "results/made_up/runs"
PACKED = "`normexp unpack packed`"


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ("report packed", PACKED),
        ("plot packed", PACKED),
        ("export packed --to csv", PACKED),
        ("compare packed made_up", PACKED),
        ("explain packed", PACKED),
        ("report made_up", "made_up: no such folder; did you mean results/made_up?"),
        ("export made_up --to csv", "did you mean results/made_up?"),
        ("report tiny.yaml", "tiny.yaml is a file, not a results folder"),
        ("explain results/made_up", SWEEP),
        ("explain made_up", SWEEP),
        ("convert results/made_up new.safetensors --to rms", SWEEP),
        ("compare made_up nosuch", "nosuch: no sweep or run"),
        ("explain d3", "d3: no run"),
        ("explain d3", "--out results/more"),
        ("explain d3 --out nosuch", "--out nosuch: no such folder"),
        ("list --out nosuch", "--out nosuch: no such folder"),
        ("list --out tiny.yaml", "--out tiny.yaml is a file"),
    ],
)
@pytest.mark.usefixtures("config", "store")
def test_paths_without_sweeps_and_runs_are_explained(arguments: str, fact: str, tmp_path: Path) -> None:
    for folder in (tmp_path / "packed", tmp_path / "results" / "more" / "one"):
        folder.mkdir(parents=True)
        (folder / PACK).write_bytes(b"")
    done = invoke(*arguments.split(), cwd=tmp_path)
    assert (done.code, fact in done.err, len(done.err.splitlines())) == (2, True, 1), done.err


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
def test_bad_usage_exits_with_2_and_no_traceback(arguments: list[str], tmp_path: Path, config: Path) -> None:
    done = invoke(*arguments, cwd=tmp_path)
    assert (done.code, bool(done.err.strip()), "Traceback" in done.err) == (2, True, False), done.err
    assert [path.name for path in tmp_path.iterdir()] == [config.name]
