"""Configs and arguments that are wrong: exit code 2, words that help, no traceback, nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import TINY, main

from normexp.storage.store import PACK, Store

BAD = {
    "a misspelt key": ("grid: {lrr: [1e-3]}", "did you mean lr"),
    "a misplaced key": ("lr: [1e-3]", "base or grid"),
    "a duplicate key": ("grid: {lr: 1e-3}\ngrid: {lr: 1e-2}", "stands twice, first at line 1: keep one"),
    "a tab": ("grid:\n\tdepth: [4]\n", "a tab is used for indentation: write spaces"),
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
    "infinite references": (
        "base: {vocab: 48, seq_len: 64, task_seed: 2}\ngrid: {sharpness: [1e6]}",
        "lower sharpness (1e+06)",
    ),
    "too many runs": ("grid: {seed: {range: [1, 1000000, 1]}, depth: {range: [1, 1000, 1]}}", "--max-runs"),
}


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


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
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


@pytest.mark.parametrize("name", ["sweep", "edge", "report", "explain", "repro", "compare", "plot", "export", "merge"])
def test_a_command_by_itself_says_what_it_lacks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([name], tmp_path, monkeypatch) == 2
    assert "Missing argument" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep", "tiny.yaml", "--steps", "10"], "--steps: write steps=10, without dashes"),
        (["sweep", "tiny.yaml", "--steps"], "--steps: write steps=VALUE, without dashes"),
        (["sweep", "tiny.yaml", "--init-gain=2"], "--init-gain: write init_gain=2, without dashes"),
        (["sweep", "tiny.yaml", "--jobs", "0"], "--jobs"),
        (["sweep", "tiny.yaml", "--workers", "1"], "No such option: --workers: write --jobs"),
        (["sweep", "depth=3", "tiny.yaml"], "depth=3: no such file: the config comes first"),
        (["sweep", "tiny.yaml", "depth", "=", "3"], "normexp: override depth = 3: write depth=3, without spaces\n"),
        (["sweep", "tiny.yaml", "lr=", "1e-3"], "override lr= 1e-3: write lr=1e-3, without spaces"),
        (["sweep", "tiny.yaml", "lr", "=1e-3"], "override lr =1e-3: write lr=1e-3, without spaces"),
        (["sweep", "tiny.yaml", "norm=lm"], "if a plugin has it, name its file: --plugin FILE.py"),
        (["sweep", "tiny.yaml", "--scale", "0,5"], "'0,5' has a decimal comma: write 0.5"),
        (["sweep", "tiny.yaml", "--timeout", "1e−1"], "'1e−1' has a typographic minus: write 1e-1"),
        (["claims", "--scale", "0,03"], "'0,03' has a decimal comma: write 0.03"),
        (["edge", "tiny.yaml", "--low", "1e−5"], "--low: '1e−5' has a typographic minus: write 1e-5"),
        (["edge", "tiny.yaml", "--resolution", "1,5"], "--resolution: '1,5' has a decimal comma: write 1.5"),
        (["sweep", "tiny.yaml", "--only", "lr=0,001"], "0,001 is two values: for a decimal write lr=0.001"),
        (["sweep", "tiny.yaml", "lr=1e−3"], "'1e−3' has a typographic minus: write 1e-3"),
        (["collapse", "--lr", "0,01"], "collapse takes one value; for a decimal write 0.01"),
        (["collapse", "--lr", "1e−2"], "--lr: '1e−2' has a typographic minus: write 1e-2"),
        (["collapse", "--depth", "many"], "--layers: 'many' is not a number"),
        (["collapse", "--lr", "1e-3,1e-2"], "--lr 1e-3,1e-2: collapse takes one value; `normexp sweep` takes several"),
        (["collapse", "--seed", "[0,1]"], "--seed [0,1]: collapse takes one value"),
        (["collapse", "--norm", "ln,rms"], "--norm ln,rms: collapse takes one value"),
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


SWEEP = "is a sweep: name one of its runs, which stand in results/made_up/runs"
PACKED = "packed: its runs are packed: restore them first, with `normexp unpack packed`"


@pytest.mark.parametrize(
    ("arguments", "words"),
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
        ("compare made_up nosuch", "nosuch: no sweep or run of that name under results"),
        ("explain d3", "d3: no run of that id under results; `normexp list` names the sweeps there; others are in "),
        ("explain d3", "others are in results/more: --out results/more"),
        ("explain d3 --out nosuch", "--out nosuch: no such folder"),
        ("list --out nosuch", "--out nosuch: no such folder"),
        ("list --out tiny.yaml", "--out tiny.yaml is a file, not a folder of results"),
    ],
)
def test_what_is_no_sweep_or_no_run_is_told_what_it_is(
    arguments: str,
    words: str,
    tmp_path: Path,
    config: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for folder in (tmp_path / "packed", tmp_path / "results" / "more" / "one"):
        folder.mkdir(parents=True)
        (folder / PACK).write_bytes(b"")
    assert main(arguments.split(), tmp_path, monkeypatch) == 2
    errors = capfd.readouterr().err
    assert words in errors
    assert len(errors.splitlines()) == 1


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
