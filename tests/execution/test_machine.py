"""Only caches are created in the user's home, and the program works without a home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import TINY, run

from normexp.execution import machine

CACHE = "MPLCONFIGDIR"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere libraries keep to other folders")


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Set the state before matplotlib is imported: no variables are set, and the home is the test's folder."""
    for name in (CACHE, "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "DASK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in ("matplotlib", "dask"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


def test_matplotlib_uses_the_cache_folder(chosen: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.redirect_matplotlib()
    assert os.environ[CACHE] == str(tmp_path / ".cache" / "matplotlib")
    chosen.delenv(CACHE)
    chosen.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    machine.redirect_matplotlib()
    assert os.environ[CACHE] == str(tmp_path / "elsewhere" / "matplotlib")
    chosen.delenv(CACHE)
    chosen.setenv("XDG_CACHE_HOME", "relative")
    machine.redirect_matplotlib()
    assert os.environ[CACHE] == str(tmp_path / ".cache" / "matplotlib")


@pytest.mark.parametrize("missing", ["nonexistent", "file"])
def test_matplotlib_gets_no_folder_without_a_home(missing: str, chosen: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    chosen.setenv("HOME", str(tmp_path / missing))
    machine.redirect_matplotlib()
    assert os.environ[CACHE] == os.devnull
    chosen.delenv(CACHE)
    chosen.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    machine.redirect_matplotlib()
    assert os.environ[CACHE] == str(tmp_path / "cache" / "matplotlib")


def test_settings_of_the_user_are_still_read(chosen: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen.setenv(CACHE, "mine")
    machine.redirect_matplotlib()
    assert os.environ[CACHE] == "mine"
    chosen.delenv(CACHE)
    (tmp_path / ".config" / "matplotlib").mkdir(parents=True)
    machine.redirect_matplotlib()
    assert CACHE not in os.environ
    chosen.setenv("DASK_CONFIG", "mine")
    machine.redirect_dask()
    assert os.environ["DASK_CONFIG"] == "mine"


def test_imported_libraries_are_not_redirected(chosen: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "dask"):
        chosen.setitem(sys.modules, name, sys)
    machine.redirect_matplotlib()
    machine.redirect_dask()
    assert CACHE not in os.environ
    assert "DASK_CONFIG" not in os.environ


@pytest.mark.slow
def test_a_sweep_makes_no_home_and_nothing_but_caches_in_one(tmp_path: Path) -> None:

    (tmp_path / "tiny.yaml").write_text(TINY)
    home_folder, nowhere = tmp_path / "home", tmp_path / "nowhere" / "home"
    home_folder.mkdir()
    unset = {"XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": "", CACHE: ""}
    for folder, executor in ((home_folder, ["--executor", "dask", "--scheduler", "local"]), (nowhere, [])):
        out = folder.parent.name
        done = run("sweep", "tiny.yaml", "--out", out, *executor, cwd=tmp_path, HOME=str(folder), **unset)
        assert done.returncode == 0, done.stderr
        assert list((tmp_path / out / "tiny").glob("figures/*.png"))
    assert not nowhere.exists()
    assert {path.relative_to(home_folder).parts[0] for path in home_folder.rglob("*")} <= {".cache"}


@pytest.mark.slow
def test_settings_of_dask_are_read_and_none_are_written(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "dask"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("distributed: {mine: 5}\n")
    code = (
        "from normexp.execution import machine; machine.redirect_dask()\n"
        "import dask, distributed; print(dask.config.get('distributed.mine'))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "DASK_CONFIG"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "5\n"
    assert [path.name for path in folder.iterdir()] == ["mine.yaml"]
