"""Runs on the workers of a dask.distributed scheduler, on this machine or many; their records come back as data."""

from __future__ import annotations

import itertools
import pickle
import queue
import time
import uuid
from collections.abc import Generator, Iterable, Iterator
from typing import Any

from normexp.execute import cluster, remote, wire
from normexp.execute.cluster import LOCAL, ClusterError
from normexp.execute.events import Event, Finished, Progress, Started
from normexp.execute.host import FAULT, RECORD
from normexp.execute.processes import pickled
from normexp.execute.worker import Work, one_line
from normexp.record import RunRecord, Status
from normexp.run import RunConfig

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
    with cluster.connected(scheduler, jobs) as client:
        cluster.check_versions(client)
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
        self._versions = remote.versions()
        client.subscribe_topic(self._topic, self._hear)

    def threads(self) -> int:
        """How many runs the workers can do at a time, as of late."""
        if time.monotonic() >= self._counted + LOOK_SECONDS:
            self._threads = cluster.threads(self._client)
            self._counted = time.monotonic()
        return self._threads

    def submit(self, config: RunConfig) -> None:
        """Send a run to the scheduler."""
        self._count += 1
        number = self._count
        request = pickle.dumps((config, self._work, self._timeout_seconds))
        with cluster.losses():
            future = self._client.submit(
                remote.run_there,
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
            cluster.check_connected(self._client)
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
        with cluster.losses():
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
        if kind == remote.GONE:
            return RunRecord(config=config, status=Status.KILLED, error=f"lost: {answer}")
        if kind == FAULT:
            raise ClusterError(f"a worker of the scheduler: {answer}")
        raise ClusterError(*cluster.differences({"a worker that has joined": answer}))

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
