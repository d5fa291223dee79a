"""Runs on the workers of a dask.distributed scheduler, on this machine or many; their records come back as data.

The connection to a dask scheduler: made, checked, and lost in plain words.
"""

from __future__ import annotations

import itertools
import logging
import pickle
import queue
import socket
import time
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from normexp.config.run import RunConfig
from normexp.errors import UserError
from normexp.execution.dask import wire, workers
from normexp.execution.dask.host import FAULT, RECORD
from normexp.execution.events import Event, Finished, Progress, Started
from normexp.execution.home import redirect_dask
from normexp.execution.pool.launch import LauncherError
from normexp.execution.pool.pool import pickled
from normexp.execution.worker import Work, one_line
from normexp.records.record import RunRecord, Status

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
            workers.hosts.end()


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
            client.run_on_scheduler(workers.versions)  # through which all work goes
        except ImportError as fault:
            raise UserError(*differences({"the scheduler": fault})) from fault
        found = client.run(workers.versions, on_error="return")
    faults = differences({f"the worker {address}": there for address, there in found.items()})
    if faults:
        raise UserError(*faults)


def differences(found: Mapping[str, Any]) -> list[str]:
    """A line for each worker whose versions differ; an exception is what a worker without normexp answers."""
    here, faults = workers.versions(), []
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


LOOK_SECONDS = 1.0
"""How often the workers' threads are counted."""
FETCH_SECONDS = 60.0
"""What the record of an ended run may take to come; then it is run again."""


def dask(
    configs: Iterable[RunConfig],
    *,
    jobs: int,
    timeout_seconds: float | None = None,
    work: Work,
    scheduler: str = LOCAL,
) -> Generator[Event, None, None]:
    """Do each config on a thread of a dask worker, in a process of its own there, at most `jobs` at a time.

    `scheduler`: an address such as tcp://host:8786, or local, for workers in this process. Without workers it waits
    for some. Runs of a worker that was lost are run again; one that costs several workers is killed.
    Raises UserError where no scheduler answers or a worker has other versions, ClusterError where that comes later.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    pickled(work)
    turns = iter(configs)
    if (first := next(turns, None)) is None:
        return
    with connected(scheduler, jobs) as client:
        check_versions(client)
        flight = _Flight(client, timeout_seconds, work)
        try:
            yield from _events(flight, itertools.chain([first], turns), jobs)
        finally:
            flight.end()


def _events(flight: _Flight, turns: Iterator[RunConfig], jobs: int) -> Iterator[Event]:
    more = True
    while more or flight.runs:
        while more and len(flight.runs) < min(jobs, flight.threads()):
            config = next(turns, None)
            if config is None:
                more = False
            else:
                flight.submit(config)
                yield Started(config)
        if more or flight.runs:
            yield from flight.news()


class _Flight:
    """The runs that are with the scheduler, by number."""

    def __init__(self, client: Any, timeout_seconds: float | None, work: Work) -> None:
        self.runs: dict[int, tuple[RunConfig, Any]] = {}
        self._client, self._timeout_seconds, self._work = client, timeout_seconds, work
        self._token = uuid.uuid4().hex[:8]  # another driver may ask for the same run with other options
        self._topic = f"normexp-{self._token}"
        self._news: queue.SimpleQueue[tuple[int, list[float] | None]] = queue.SimpleQueue()
        self._count = self._threads = 0
        self._counted = -LOOK_SECONDS
        self._versions = workers.versions()
        client.subscribe_topic(self._topic, self._hear)

    def threads(self) -> int:
        """How many runs the workers can do at a time, as of late."""
        if time.monotonic() >= self._counted + LOOK_SECONDS:
            self._threads = threads(self._client)
            self._counted = time.monotonic()
        return self._threads

    def submit(self, config: RunConfig) -> None:
        """Send a run to the scheduler."""
        self._count += 1
        number = self._count
        request = pickle.dumps((config, self._work, self._timeout_seconds))
        with losses():
            future = self._client.submit(
                workers.run_there,
                self._versions,
                request,
                self._topic,
                number,
                key=("normexp", config.run_id, self._token, number),
                pure=False,
            )
        self.runs[number] = config, future
        future.add_done_callback(lambda future: self._news.put((number, None)))

    def _hear(self, event: tuple[float, Any]) -> None:
        _, message = event
        self._news.put((message["run"], message["progress"]))

    def news(self) -> Iterator[Event]:
        """What has happened by now, after at most a second."""
        try:
            number, progress = self._news.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            check_connected(self._client)
            return
        if number not in self.runs:
            return
        config, future = self.runs[number]
        if progress is not None:
            step, loss, grad_norm, *rms_by_layer = progress
            yield Progress(config, int(step), loss, grad_norm, tuple(rms_by_layer))
            return
        record = self._record(config, future)
        del self.runs[number]
        if record is None:
            self.submit(config)
        else:
            yield Finished(record)
        future.release()

    def _record(self, config: RunConfig, future: Any) -> RunRecord | None:
        """The record of a run that has ended; None where it is to be run again. Raises ClusterError."""
        with losses():
            if future.status == "error":
                return _of_error(config, future.exception())
            try:
                kind, answer = future.result(timeout=FETCH_SECONDS)
            except TimeoutError:
                return None
        if kind == RECORD:
            try:
                return wire.unpack(answer, config)
            except ValueError as fault:
                return RunRecord(config=config, status=Status.FAILED, error=f"its worker sent no record: {fault}")
        if kind == workers.GONE:
            return RunRecord(config=config, status=Status.KILLED, error=f"lost: {answer}")
        if kind == FAULT:
            raise ClusterError(f"a worker of the scheduler: {answer}")
        raise ClusterError(*differences({"a worker that has joined": answer}))

    def end(self) -> None:
        """Let go of all runs: their workers end them."""
        self._client.unsubscribe_topic(self._topic)
        for _, future in self.runs.values():
            future.release()


def _of_error(config: RunConfig, fault: BaseException) -> RunRecord:
    """Of a task that had no answer. Raises ClusterError unless it is the run's own fault."""
    from distributed.scheduler import KilledWorker

    if not isinstance(fault, KilledWorker):
        raise ClusterError(f"a worker cannot do a run of normexp: {one_line(fault)}: install the same there as here")
    lost = fault.allowed_failures + 1
    return RunRecord(config=config, status=Status.KILLED, error=f"killed: {lost} workers were lost while they did it")
