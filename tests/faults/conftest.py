"""Fixtures of the tests of faults: nurseries, and finished sweeps to copy and damage."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import program
from nursery import Nursery
from sweeps import ONE, TWO, finished, write_configs


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    yield from _nursery(tmp_path_factory.mktemp("nursery"), light=False)


@pytest.fixture(scope="session")
def light(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    yield from _nursery(tmp_path_factory.mktemp("light"), light=True)


def _nursery(folder: Path, *, light: bool) -> Iterator[Nursery]:
    if sys.platform != "linux":
        pytest.skip("forks, and reads /proc")
    nursery = Nursery(folder, light=light)
    yield nursery
    nursery.close()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished sweeps `one` and `two`, which share a run, and a pack of `two`."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_configs(folder)
    for name in (ONE, TWO):
        finished(program, folder, name)
    assert program("pack", f"{folder}/results/{TWO}", cwd=folder).code == 0
    figures = folder / "results" / TWO / "figures"
    figures.mkdir()
    for suffix in ("svg", "png", "csv"):
        (figures / f"curves.{suffix}").write_text("drawn\n")
    for name in ("report.html", ".figures"):
        (figures.parent / name).write_text("drawn\n")
    return folder
