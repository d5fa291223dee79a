"""The connection to a dask scheduler: made, checked, and lost in plain words."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from normexp.errors import UserError
from normexp.execute import remote
from normexp.execute.launch import LauncherError
from normexp.execute.worker import one_line
from normexp.home import redirect_dask

LOCAL = "local"
"""As a scheduler: one in this process, with its workers."""
CONNECT_SECONDS = 5
CLOSE_SECONDS = 2
SETTINGS = {"distributed.scheduler.worker-saturation": 1.0, "distributed.scheduler.allowed-failures": 3}
"""Of our own scheduler: a run waits there until a worker is free, and may cost as many workers and one more."""
ANY_PORT = "127.0.0.1:0"
"""Of the pages that dask serves about itself: its default may be taken, and is open to the network."""
SILENT = logging.CRITICAL + 1


class ClusterError(LauncherError):
    """Scheduler or workers are of no more use to this sweep. No run's fault."""


@contextmanager
def connected(scheduler: str, jobs: int) -> Iterator[Any]:
    """A client of the scheduler. Raises UserError where dask.distributed is missing, or no scheduler answers."""
    redirect_dask()
    try:
        import distributed
    except ImportError as fault:
        raise UserError("executor dask: needs dask.distributed: pip install 'normexp[dask]'") from fault
    with ExitStack() as stack:
        stack.enter_context(_silence())
        address = stack.enter_context(_local(jobs)) if scheduler == LOCAL else scheduler
        try:
            if scheduler != LOCAL:
                _knock(scheduler)
            make: Any = distributed.Client
            client = make(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as fault:
            raise UserError(
                f"scheduler {scheduler}: no dask scheduler answers there: start one with `dask scheduler`, "
                f"and write its address, tcp://host:8786, or {LOCAL} ({one_line(fault)})"
            ) from fault
        stack.callback(client.close, timeout=CLOSE_SECONDS)
        yield client


def _knock(address: str) -> None:
    """Raise OSError or ValueError where nothing listens: a client that has not connected leaves its loop behind."""
    from distributed.comm.addressing import get_address_host_port

    socket.create_connection(get_address_host_port(address), timeout=CONNECT_SECONDS).close()


@contextmanager
def _local(jobs: int) -> Iterator[Any]:
    """A scheduler in this process and `jobs` workers, each of one thread: what they do is in processes anyway."""
    import dask
    import distributed

    make: Any = distributed.LocalCluster
    with dask.config.set(SETTINGS):
        cluster = make(
            n_workers=jobs,
            threads_per_worker=1,
            processes=False,
            memory_limit=None,
            dashboard_address=ANY_PORT,
            worker_dashboard_address=ANY_PORT,
        )
        try:
            yield cluster
        finally:
            cluster.close(timeout=CLOSE_SECONDS)
            remote.hosts.end()


@contextmanager
def _silence() -> Iterator[None]:
    """What distributed logs of a lost connection is told by us, in one line."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(SILENT)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def check_versions(client: Any) -> None:
    """Raise UserError where a worker has other versions than this process, naming both, or the scheduler no normexp."""
    with losses():
        try:
            client.run_on_scheduler(remote.versions)  # through which all work goes
        except ImportError as fault:
            raise UserError(*differences({"the scheduler": fault})) from fault
        found = client.run(remote.versions, on_error="return")
    faults = differences({f"the worker {address}": there for address, there in found.items()})
    if faults:
        raise UserError(*faults)


def differences(found: Mapping[str, Any]) -> list[str]:
    """A line for each worker whose versions differ; an exception is what a worker without normexp answers."""
    here, faults = remote.versions(), []
    for name, there in found.items():
        if isinstance(there, BaseException):
            faults.append(f"{name} has no normexp that answers ({one_line(there)}): install the same there as here")
        elif there != here:
            words = ", ".join(
                f"{key} {there.get(key)} (here {value})" for key, value in here.items() if there.get(key) != value
            )
            faults.append(f"{name} has {words}: install the same there as here")
    return faults


@contextmanager
def losses() -> Iterator[None]:
    """Turn what a lost scheduler does to a call into ClusterError."""
    import asyncio
    from concurrent import futures

    try:
        yield
    except (OSError, futures.CancelledError, asyncio.CancelledError) as fault:
        raise _lost() from fault


def check_connected(client: Any) -> None:
    """Raise ClusterError where the scheduler is gone."""
    if client.status != "running":
        raise _lost()


def threads(client: Any) -> int:
    """The threads of all workers. Raises ClusterError."""
    check_connected(client)
    with losses():
        return sum(client.nthreads().values())


def _lost() -> ClusterError:
    return ClusterError("the connection to the dask scheduler is lost")
