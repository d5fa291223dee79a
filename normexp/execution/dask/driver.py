"""The driver's side of the dask executor: connect to a scheduler, submit runs, and yield their events."""

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
from normexp.execution.dask import host, workers
from normexp.execution.dask.host import FAULT, RECORD
from normexp.execution.events import Event, Finished, Progress, Started
from normexp.execution.machine import redirect_dask
from normexp.execution.pool.launch import LauncherError
from normexp.execution.pool.pool import pickled
from normexp.execution.worker import Work, one_line
from normexp.records.record import RunRecord, Status

LOCAL = "local"
"""Scheduler address for a scheduler with workers in this process."""
CONNECT_SECONDS = 5
CLOSE_SECONDS = 2
SETTINGS = {"distributed.scheduler.worker-saturation": 1.0, "distributed.scheduler.allowed-failures": 3}
"""Settings of the local scheduler: runs wait there until a worker is free, and may lose three workers."""
ANY_PORT = "127.0.0.1:0"
"""Address of dask's dashboards. Their default port may be taken, and is open to the network."""
SILENT = logging.CRITICAL + 1
LOOK_SECONDS = 1.0
"""Interval of counting the workers' threads."""
FETCH_SECONDS = 60.0
"""Longest time to fetch the record of a finished run. After that, it is run again."""


class ClusterError(LauncherError):
    """The scheduler or its workers can no longer be used. No run is to blame."""


@contextmanager
def connected(scheduler: str, jobs: int) -> Iterator[Any]:
    """Yield a client of the scheduler. Raises UserError if dask.distributed is missing or no scheduler answers."""
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
                f"scheduler {scheduler}: no dask scheduler answers there: start one with `dask scheduler` "
                f"and write its address, tcp://host:8786, or write {LOCAL} ({one_line(fault)})"
            ) from fault
        stack.callback(client.close, timeout=CLOSE_SECONDS)
        yield client


def _knock(address: str) -> None:
    """Raise OSError or ValueError if nothing listens. A client that fails to connect would leave its loop running."""
    from distributed.comm.addressing import get_address_host_port

    socket.create_connection(get_address_host_port(address), timeout=CONNECT_SECONDS).close()


@contextmanager
def _local(jobs: int) -> Iterator[Any]:
    """Yield a cluster in this process with `jobs` single-threaded workers, which start processes for runs."""
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
    """Silence the loggers of distributed. A lost connection is reported as a ClusterError."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(SILENT)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def check_versions(client: Any) -> None:
    """Raise UserError if a worker's versions differ from this process, or if the scheduler lacks normexp."""
    with losses():
        try:
            client.run_on_scheduler(workers.versions)  # all runs are sent through the scheduler
        except ImportError as fault:
            raise UserError(*differences({"the scheduler": fault})) from fault
        answers = client.run(workers.versions, on_error="return")
    complaints = differences({f"the worker {address}": answer for address, answer in answers.items()})
    if complaints:
        raise UserError(*complaints)


def differences(answers: Mapping[str, Any]) -> list[str]:
    """Return a line for each worker whose versions differ. A worker without normexp answers with an exception."""
    ours, complaints = workers.versions(), []
    for name, theirs in answers.items():
        if isinstance(theirs, BaseException):
            complaints.append(f"{name} has no working normexp ({one_line(theirs)}): install the same version as here")
        elif theirs != ours:
            words = ", ".join(
                f"{key} {theirs.get(key)} (here {value})" for key, value in ours.items() if theirs.get(key) != value
            )
            complaints.append(f"{name} has {words}: install the same version as here")
    return complaints


@contextmanager
def losses() -> Iterator[None]:
    """Turn errors of a lost scheduler into ClusterError."""
    import asyncio
    from concurrent import futures

    try:
        yield
    except (OSError, futures.CancelledError, asyncio.CancelledError) as fault:
        raise _lost() from fault


def check_connected(client: Any) -> None:
    """Raise ClusterError if the connection to the scheduler is lost."""
    if client.status != "running":
        raise _lost()


def threads(client: Any) -> int:
    """Return the number of threads of all workers. Raises ClusterError."""
    check_connected(client)
    with losses():
        return sum(client.nthreads().values())


def _lost() -> ClusterError:
    return ClusterError("the connection to the dask scheduler was lost")


def dask(
    configs: Iterable[RunConfig],
    *,
    jobs: int,
    timeout_seconds: float | None = None,
    work: Work,
    scheduler: str = LOCAL,
) -> Generator[Event, None, None]:
    """Run each config on a thread of a dask worker, in a separate process there, at most `jobs` in parallel.

    `scheduler` is an address such as tcp://host:8786, or "local" for workers in this process. The executor waits until
    there are workers. Runs of a lost worker are run again; a run that loses several workers is killed.
    Raises UserError if no scheduler answers or a worker has other versions, ClusterError if that happens later.
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
    """The runs that were submitted to the scheduler, by number."""

    def __init__(self, client: Any, timeout_seconds: float | None, work: Work) -> None:
        self.runs: dict[int, tuple[RunConfig, Any]] = {}
        self._client, self._timeout_seconds, self._work = client, timeout_seconds, work
        self._token = uuid.uuid4().hex[:8]  # another driver may submit the same run with other options
        self._topic = f"normexp-{self._token}"
        self._news: queue.SimpleQueue[tuple[int, list[float] | None]] = queue.SimpleQueue()
        self._count = self._threads = 0
        self._counted = -LOOK_SECONDS
        self._versions = workers.versions()
        client.subscribe_topic(self._topic, self._hear)

    def threads(self) -> int:
        """Return how many runs the workers can execute in parallel. Updated every LOOK_SECONDS."""
        if time.monotonic() >= self._counted + LOOK_SECONDS:
            self._threads = threads(self._client)
            self._counted = time.monotonic()
        return self._threads

    def submit(self, config: RunConfig) -> None:
        """Submit a run to the scheduler."""
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
        """Yield the event of the next message, if one arrives within LOOK_SECONDS. Raises ClusterError."""
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
        """Return the record of a finished run, or None if it must be run again. Raises ClusterError."""
        with losses():
            if future.status == "error":
                return _record_of_error(config, future.exception())
            try:
                kind, answer = future.result(timeout=FETCH_SECONDS)
            except TimeoutError:
                return None
        if kind == RECORD:
            try:
                return host.unpack(answer, config)
            except ValueError as fault:
                return RunRecord(
                    config=config, status=Status.FAILED, error=f"its worker sent an invalid record: {fault}"
                )
        if kind == workers.GONE:
            return RunRecord(config=config, status=Status.KILLED, error=f"lost: {answer}")
        if kind == FAULT:
            raise ClusterError(f"a dask worker failed: {answer}")
        raise ClusterError(*differences({"a new worker": answer}))

    def end(self) -> None:
        """Release all runs, so that their workers stop them."""
        self._client.unsubscribe_topic(self._topic)
        for _, future in self.runs.values():
            future.release()


def _record_of_error(config: RunConfig, fault: BaseException) -> RunRecord:
    """Return the record of a run that lost too many workers. Raises ClusterError for other errors."""
    from distributed.scheduler import KilledWorker

    if not isinstance(fault, KilledWorker):
        raise ClusterError(f"a worker cannot execute runs ({one_line(fault)}): install the same version as here")
    lost = fault.allowed_failures + 1
    return RunRecord(config=config, status=Status.KILLED, error=f"killed: {lost} workers were lost during this run")
