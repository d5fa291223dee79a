"""Runs on dask in this process: bit-identical results, checked records, and refused arguments."""

from __future__ import annotations

import multiprocessing
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from workloads import records, tiny

import normexp
from normexp.config import plugins
from normexp.config.plugins import Plugin
from normexp.errors import UserError
from normexp.execution.dask import driver as connection
from normexp.execution.dask import host, workers
from normexp.execution.dask.driver import dask
from normexp.execution.events import Finished, Progress, Started
from normexp.execution.executors import chosen
from normexp.execution.inline import inline
from normexp.execution.worker import Job
from normexp.records.record import RunRecord, Status

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
PLUGIN = Plugin(
    "mine.py",
    """
import torch
from normexp.schemes import Norm

class Half(torch.nn.Module):
    def forward(self, x):
        return x / 2

NORMS = {"half": Norm(make=lambda width, run: Half(), help="half", source="here")}
""",
)


@pytest.fixture
def port_8787_taken() -> Iterator[None]:
    """Occupy the default port of dask's dashboard."""
    with ExitStack() as stack:
        with suppress(OSError):
            stack.enter_context(socket.create_server(("", 8787)))
        yield


@pytest.mark.usefixtures("port_8787_taken")
@pytest.mark.slow
def test_a_run_with_plugin_and_weights_is_the_same_to_the_bit_on_a_cluster_of_this_process() -> None:
    with plugins.using(PLUGIN):
        configs = [tiny(seed, norm="half", eval_every=2) for seed in range(2)]
        job = Job((PLUGIN,), save_weights=True)
        here = records(inline(configs, jobs=1, work=job))
        events = list(dask(configs, jobs=1, work=job))
        by_seed = records(iter(events))
    assert [type(event) for event in events if not isinstance(event, Progress)] == [Started, Finished] * 2
    for seed, record in here.items():
        assert by_seed[seed].status is Status.DONE, by_seed[seed].error
        assert (by_seed[seed].result, by_seed[seed].verdict) == (record.result, record.verdict)
        assert by_seed[seed].weights == record.weights
        assert record.weights
    assert multiprocessing.active_children() == []


def test_one_run_from_python_goes_to_a_scheduler_too() -> None:
    record = normexp.run(tiny(0), executor="dask", scheduler="local")
    assert record.status is Status.DONE, record.error
    with pytest.raises(UserError, match=r"^scheduler local: .*dask"):
        normexp.run(tiny(0), scheduler="local")


def test_records_of_workers_are_checked() -> None:
    config = tiny(0)
    (record,) = records(inline([config], jobs=1, work=Job())).values()
    packed = host.pack(record)
    assert host.unpack(packed, config) == RunRecord(
        **{name: getattr(record, name) for name in RunRecord.__slots__ if name != "traces"},
        traces=host.unpack(packed, config).traces,
    )
    with pytest.raises(ValueError, match="another config"):
        host.unpack(packed, tiny(1))
    for broken in ({}, packed | {"json": "{}"}, packed | {"json": None}, packed | {"traces": {"curve": "x"}}):
        with pytest.raises(ValueError, match=r".+"):
            host.unpack(broken, config)


def test_executor_and_scheduler_belong_together() -> None:
    with pytest.raises(UserError, match=r"^scheduler tcp://here:1: .*dask"):
        chosen("processes", "tcp://here:1")
    with pytest.raises(UserError, match=r"^executor dask: .*tcp://HOST:8786, or local"):
        chosen("dask", None)
    with pytest.raises(UserError, match=r"^executor threads: .*processes, inline, dask"):
        chosen("threads", None)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"pip install 'normexp\[dask\]'"):
        list(dask([tiny(0)], jobs=1, work=Job()))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1", "nonsense://x"])
def test_a_missing_scheduler_is_reported(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.3)
    with pytest.raises(UserError, match=f"^scheduler {address}: "):
        list(dask([tiny(0)], jobs=1, work=Job(), scheduler=address))


def test_differing_versions_are_named_on_both_sides() -> None:
    assert connection.differences({"the worker a": workers.versions()}) == []
    other = workers.versions() | {"numpy": "1.0", "numerics": "0"}
    (fault,) = connection.differences({"the worker a": other})
    here = workers.versions()
    assert f"the worker a has numpy 1.0 (here {here['numpy']}), numerics 0 (here {here['numerics']})" in fault
