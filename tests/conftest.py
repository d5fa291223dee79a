"""One torch thread in the tests, as in every run; and configs and results folders that several files look at."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import records as made
from charts import source_of
from commandline import TINY, run
from hypothesis import settings
from sharded import SHARDS, filled
from stored import write_all

from normexp.config.plan import Pivot, Plan, Published
from normexp.plots.choice import Source
from normexp.records.record import RunRecord
from normexp.storage.store import Store

settings.register_profile("suite", derandomize=True)
settings.register_profile("search")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
"""The same examples every time; HYPOTHESIS_PROFILE=search looks for others."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts pytest in the background makes it ignore Ctrl-C, and with it each program that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


@pytest.fixture
def alone() -> Iterator[None]:
    """torch as a calculation has it, and its random state given back."""
    from normexp.training.trainer import alone

    with alone():
        yield


@pytest.fixture
def no_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports draw nothing, but for tests that are marked with_figures."""
    if "with_figures" not in request.keywords:
        monkeypatch.setattr("normexp.report.report.write_figures", lambda store, report: None)


@pytest.fixture
def plan() -> Plan:
    """Two norms at two rates."""
    return made.plan({"norm": ["ln", "none"], "lr": [1e-3, 1e-2]}, depth=2)


@pytest.fixture
def records(plan: Plan) -> dict[str, RunRecord]:
    """With a norm: learned. Without: at 1e-3 one loss of 1e9 in three, at 1e-2 two dead of three."""
    return made.torn(plan)


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> Store:
    """The folder of that plan, without a run."""
    store = Store(tmp_path / "results" / plan.folder)
    store.begin(plan, ["sweep", "made_up.yaml"], force=False)
    return store


@pytest.fixture
def shards(tmp_path: Path, plan: Plan) -> list[Store]:
    """Three folders with the plan's runs."""
    return [filled(tmp_path, plan.part(shard)) for shard in SHARDS]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[Path, str]]:
    """A folder of one run that learned and one dead, and its JSON files."""
    plan = made.plan(
        {"norm": ["ln", "none"], "seed": [0, 1]},
        depth=2,
        pivot=Pivot(rows=("norm",), columns=()),
        published=[Published(where={"norm": "none"}, text="NaN", source="Table 1")],
    )
    store = Store(tmp_path_factory.mktemp("shelf") / plan.folder)
    store.begin(plan, ["sweep"], force=False)
    write_all(store, plan)
    ends = [*store.folder.glob("runs/d2-none*/run.json"), *store.folder.glob("runs/d2-ln*/run.json")]
    return store, {path: path.read_text("utf-8") for path in (store.folder / "manifest.json", ends[0], ends[-1])}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """tiny.yaml, of two runs."""
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY + "grid: {lr: [1e-3, 1e-2]}\n")
    return path


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished sweep, one of whose runs died."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "tiny.yaml").write_text(TINY.replace("}", ", optimizer: sgd, norm: none}") + "grid: {lr: [1e-3, 1e30]}\n")
    done = run("sweep", "tiny.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def source() -> Source:
    """With a norm: learned. Without: at 1e-3 one loss of 1e9 in three, at 1e-2 two dead of three."""
    plan = made.plan({"norm": ["ln", "none"], "lr": [1e-3, 1e-2], "seed": [0, 1, 2]}, depth=4)
    return source_of(plan, made.torn(plan))
