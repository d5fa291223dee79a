"""The example at the end of every command's help: it is read by the command, and run where that is quick."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
import typer
from commandline import invoke
from stored import saved

from normexp.commands import app
from normexp.config import grid, sweep_file

ROOT = Path(__file__).parents[2]
EXAMPLES = {name: shlex.split(module.EXAMPLE) for name, module in app.commands()}
LONG = {"bench", "probe", "convert", "merge", "repro", "claims"}
"""Commands whose examples take seconds, or need runs that this test does not have."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the configs, and with made-up results of configs/lr_scan.yaml."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(ROOT / "configs", folder / "configs")
    plan = grid.plan(sweep_file.load(folder / "configs" / "lr_scan.yaml"))
    saved(folder / "results", plan, ["2.0"] * len(plan.configs))
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_the_end_of_its_help_and_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, command, *arguments = EXAMPLES[name]
    assert (program, command) == ("normexp", name)
    shown = " ".join(invoke(name, "--help").out.split())
    assert shown.endswith(f"Example: {dict(app.commands())[name].EXAMPLE}")
    monkeypatch.chdir(ROOT)
    typer.main.get_command(app.app).commands[name].make_context(name, arguments)


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - LONG))
def test_an_example_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
    if name == "unpack":
        invoke("pack", "results/lr_scan", cwd=folder)
    done = invoke(*EXAMPLES[name][1:], cwd=folder)
    assert (done.code, done.err.count("Traceback")) == (0, 0), done.err
    assert done.out


def test_a_dry_run_of_a_collapse_writes_nothing(tmp_path: Path) -> None:
    done = invoke("collapse", "--layers", "3", "--steps", "20", "--dry-run", cwd=tmp_path)
    assert (done.code, list(tmp_path.iterdir())) == (0, [])
    assert "9 runs" in done.out
    assert "about" in done.out


def test_the_help_of_collapse_has_the_default_of_every_key() -> None:
    text = " ".join(invoke("collapse", "--help").out.replace("│", " ").split())
    assert "peak learning rate (a number above 0; default: 0.01, 0.001 with as-described and as-written)" in text
    assert "training updates (a whole number at least 1; default: 400)" in text
    assert "default: none)" in text
