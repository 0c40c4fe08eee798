"""The controller, assembled: engine, scheduler, node streams, service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal

import grpc

from minislurm.controller import collector
from minislurm.controller.engine import Engine
from minislurm.controller.node_hub import NodeHub
from minislurm.controller.node_service import NodeService
from minislurm.controller.scheduler import Scheduler
from minislurm.controller.service import ControllerService
from minislurm.controller.watchers import Watchers
from minislurm.domain.configuration import Configuration
from minislurm.domain.errors import MinislurmError
from minislurm.journal.store import Store
from minislurm.rpc import auth
from minislurm.rpc.gen import controller_pb2_grpc, node_pb2_grpc

log = logging.getLogger(__name__)

JOURNAL_NAME = "journal.db"
_OPTIONS = [
    ("grpc.so_reuseport", 0),  # a second controller on the same port must fail, not share it
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
]


async def serve(configuration: Configuration) -> None:
    """Runs until SIGTERM or SIGINT. Raises MinislurmError if it cannot start."""
    directory = configuration.cluster.state_dir
    os.makedirs(directory, mode=0o755, exist_ok=True)
    lock = _lock(directory)
    key = auth.make_key(configuration.key_file)
    verifier = auth.Verifier(key, configuration.cluster.name)
    store = Store(os.path.join(directory, JOURNAL_NAME), keep_events=configuration.journal.keep_events)
    engine = Engine(store, configuration)
    scheduler = Scheduler(engine)
    hub = NodeHub(engine)
    watchers = Watchers(engine, scheduler)
    engine.outside.command = hub.send
    engine.outside.job_changed = watchers.job_changed
    engine.outside.reloaded = hub.close_all
    server = grpc.aio.server(options=_OPTIONS)
    service = ControllerService(engine, scheduler, watchers, key, verifier)
    controller_pb2_grpc.add_ControllerServicer_to_server(service, server)
    node_pb2_grpc.add_NodeControlServicer_to_server(NodeService(engine, hub, verifier), server)
    address = f"{configuration.cluster.controller_host}:{configuration.cluster.controller_port}"
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise MinislurmError(f"cannot listen on {address}: {error}") from error
    await engine.start()
    collector.settle()
    watchers.start()
    await server.start()
    engine.outside.schedule = scheduler.wake
    log.info("controller of %s at %s, event %d", configuration.cluster.name, address, engine.journal.seq)
    await _run(engine, scheduler, hub)
    await server.stop(grace=0.2)
    await engine.stop()
    os.close(lock)


async def _run(engine: Engine, scheduler: Scheduler, hub: NodeHub) -> None:
    """Until a signal comes, or a part fails: a broken invariant stops the daemon."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    failure: list[BaseException] = []

    def broken(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        shown = error if isinstance(error, BaseException) else None
        log.critical("%s", context.get("message"), exc_info=shown)
        if isinstance(error, AssertionError):
            failure.append(error)
            stopped.set()

    loop.set_exception_handler(broken)
    work = (scheduler.run(), hub.watch(), collector.sweep())
    parts = [asyncio.ensure_future(one) for one in work]
    waiting = asyncio.ensure_future(stopped.wait())
    await asyncio.wait([waiting, *parts], return_when=asyncio.FIRST_COMPLETED)
    hub.close_all()
    for part in (*parts, waiting):
        if part.done() and not part.cancelled() and part.exception() is not None:
            failure.append(part.exception())  # type: ignore[arg-type]
        part.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await part
    if failure:
        raise failure[0]


def _lock(directory: str) -> int:
    """Two controllers on one journal would destroy it."""
    import fcntl

    path = os.path.join(directory, "controller.lock")
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise MinislurmError(f"another controller runs on {directory}") from error
    return descriptor
