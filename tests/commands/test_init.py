"""normexp init: a starter config and plugin that work together, and the configs and examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import TINY, invoke

from normexp.config import plugins, sweep_file
from normexp.schemes.norms import NORMS
from normexp.storage import starter_files

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _plugins_are_forgotten() -> Iterator[None]:
    yield
    for plugin in plugins.loaded():
        NORMS.remove(plugin.digest)
    plugins._loaded.clear()
    plugins._from_configs.clear()


def test_the_starter_sweep_has_twelve_runs_with_a_norm_of_its_plugin(tmp_path: Path) -> None:
    done = invoke("init", tmp_path / "new")
    assert done.code == 0
    assert done.out.splitlines() == [
        str(tmp_path / "new" / "my_norm.py"),
        str(tmp_path / "new" / "starter.yaml"),
        f"Next: normexp sweep {tmp_path / 'new' / 'starter.yaml'}",
    ]
    sweep = sweep_file.load(tmp_path / "new" / "starter.yaml")
    assert list(sweep.plugins) == ["my_norm.py"]
    assert "mine" in NORMS
    assert sweep.groups[0].size == 12


@pytest.mark.parametrize("name", ["starter.yaml", "my_norm.py", "configs/edge.yaml"])
def test_no_file_is_overwritten(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    done = invoke("init", "--examples", cwd=tmp_path)
    assert (done.code, f"{name} already exists" in done.err) == (2, True)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]
    assert path.read_text() == "mine"


def test_the_examples_are_those_of_the_repository(tmp_path: Path) -> None:
    assert invoke("init", "--examples", cwd=tmp_path).code == 0
    for folder in ("configs", "examples"):
        names = {path.name: path.read_bytes() for path in (ROOT / folder).iterdir() if path.is_file()}
        assert {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()} == names


def test_an_installation_without_examples_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter_files, "_package", lambda: ROOT / "normexp" / "starter")
    (tmp_path / "starter").mkdir()
    monkeypatch.setattr(starter_files, "starter", dict)
    done = invoke("init", "--examples", cwd=tmp_path)
    assert (done.code, "install its wheel" in done.err) == (2, True)


def test_a_missing_config_of_the_repository_is_advised(tmp_path: Path) -> None:
    done = invoke("sweep", "configs/lr_scan.yaml", cwd=tmp_path)
    assert (done.code, "normexp init --examples" in done.err) == (2, True)


def test_later_commands_need_no_plugin_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)
    (tmp_path / "approvals").mkdir()
    monkeypatch.setattr("normexp.storage.plugin_snapshots._approvals", lambda: tmp_path / "approvals")
    (tmp_path / "own.py").write_bytes(starter_files.starter()["my_norm.py"])
    (tmp_path / "own.yaml").write_text(f"plugin: own.py\n{TINY}grid: {{norm: [ln, mine]}}\n")
    assert invoke("sweep", "own.yaml", "--executor", "inline", cwd=tmp_path).code == 0
    for words in (["report", "results/own"], ["explain", "d1-mine"], ["list"], ["pack", "results/own"]):
        for plugin in plugins.loaded():
            NORMS.remove(plugin.digest)
        plugins._loaded.clear()
        done = invoke(*words, cwd=tmp_path)
        assert (done.code, "--plugin" in done.out + done.err) == (0, False), done.err
