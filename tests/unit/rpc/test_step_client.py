from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from minislurm.rpc.gen import step_pb2
from minislurm.rpc.step_client import (
    NodeFinished,
    NodeLine,
    NodeLost,
    StepClient,
    StepEvent,
    StepLaunch,
    TaskEnded,
    TaskOutput,
    TasksStarted,
)
from tests.step_service_double import CREDENTIAL, ScriptedNode, a_grant, serve

LAUNCH = StepLaunch(("echo", "hi"), "/tmp", (b"A=1",))


class _Run:
    """A client against scripted nodes; what it heard is in `events`."""

    def __init__(self, nodes: Sequence[ScriptedNode], launch: StepLaunch = LAUNCH) -> None:
        self.nodes = nodes
        self.launch = launch
        self.events: list[StepEvent] = []
        self.client: StepClient

    async def __aenter__(self) -> _Run:
        self.servers = await serve(self.nodes)
        self.client = StepClient(a_grant(self.nodes), self.launch, self._note)
        return self

    async def __aexit__(self, *error: object) -> None:
        for server in self.servers:
            await server.stop(0)

    async def _note(self, event: StepEvent) -> None:
        self.events.append(event)

    async def finish(self) -> list[StepEvent]:
        await asyncio.wait_for(self.client.run(), 20)
        return self.events


def _run(nodes: Sequence[ScriptedNode], launch: StepLaunch = LAUNCH) -> list[StepEvent]:
    async def body() -> list[StepEvent]:
        async with _Run(nodes, launch) as run:
            return await run.finish()

    return asyncio.run(body())


def test_events_of_one_node_come_in_their_order() -> None:
    async def play(node: ScriptedNode) -> None:
        await node.output(0, b"out\n")
        await node.output(0, b"err\n", error=True)
        await node.send(message=step_pb2.StepMessage(text="slurmstepd-n1: error: x"))
        await node.ends(0, code=3)

    assert _run([ScriptedNode(play)]) == [
        TasksStarted("n1", (1000,)),
        TaskOutput("n1", 0, False, b"out\n"),
        TaskOutput("n1", 0, True, b"err\n"),
        NodeLine("n1", "slurmstepd-n1: error: x"),
        TaskEnded("n1", 0, 3),
        NodeFinished("n1"),
    ]


def test_each_node_is_told_its_part_of_the_step() -> None:
    async def play(node: ScriptedNode) -> None:
        await node.all_end()

    nodes = [ScriptedNode(play, (0, 1)), ScriptedNode(play, (2, 3)), ScriptedNode(play, (4,))]
    _run(nodes)
    for index, node in enumerate(nodes):
        launch = node.launch
        assert (launch.job_id, launch.run, launch.step_id) == (7, 1, 3)
        assert tuple(launch.tasks) == node.tasks
        assert (launch.node_index, launch.step_node_count, launch.step_task_count) == (index, 3, 5)
        assert launch.step_node_list == "n[1-3]"
        assert launch.step_tasks_per_node == "2(x2),1"
        assert list(launch.arguments) == ["echo", "hi"]
        assert list(launch.environment) == [b"A=1"]
        assert not launch.HasField("cpus_per_task")
        assert launch.kill_on_disconnect
        assert node.metadata["authorization"] == f"Bearer {CREDENTIAL}"


def test_input_reaches_all_nodes_intact_and_ends() -> None:
    data = bytes(range(256)) * 4096  # 1 MiB

    async def play(node: ScriptedNode) -> None:
        await node.until(lambda: bool(node.ended_inputs))
        await node.all_end()

    async def body() -> list[ScriptedNode]:
        nodes = [ScriptedNode(play, (0,)), ScriptedNode(play, (1, 2))]
        async with _Run(nodes) as run:
            finished = asyncio.ensure_future(run.finish())
            for start in range(0, len(data), 65536):
                await run.client.send_input(data[start : start + 65536])
            await run.client.end_input()
            await finished
        return nodes

    for node in asyncio.run(body()):
        assert bytes(node.input) == data
        assert node.ended_inputs == [None]


def test_input_for_one_task_goes_to_its_node_alone() -> None:
    async def play_reader(node: ScriptedNode) -> None:
        await node.until(lambda: bool(node.ended_inputs))
        await node.all_end()

    async def play(node: ScriptedNode) -> None:
        await node.all_end()

    async def body() -> tuple[ScriptedNode, ScriptedNode]:
        first, second = ScriptedNode(play, (0,)), ScriptedNode(play_reader, (1, 2))
        async with _Run([first, second]) as run:
            finished = asyncio.ensure_future(run.finish())
            await run.client.send_input(b"x", task=2)
            await run.client.end_input(task=2)
            await finished
        return first, second

    first, second = asyncio.run(body())
    assert first.inputs == []
    assert second.inputs == [(2, b"x"), (2, b"")]


def test_input_that_nobody_takes_waits_and_is_let_go_at_the_end() -> None:
    """The bound: four pieces wait for a node, the fifth waits with its sender."""

    async def body() -> None:
        grant = a_grant([ScriptedNode(lambda node: node.all_end())])
        client = StepClient(grant, LAUNCH, _ignore)
        for _ in range(4):
            await asyncio.wait_for(client.send_input(b"x"), 5)
        fifth = asyncio.ensure_future(client.send_input(b"x"))
        done, _ = await asyncio.wait([fifth], timeout=0.05)
        assert not done
        client.abandon()
        await asyncio.wait_for(fifth, 5)

    asyncio.run(body())


def test_a_signal_overtakes_input_that_no_task_reads() -> None:
    async def play(node: ScriptedNode) -> None:
        await node.until(lambda: 15 in node.signals)
        await node.all_end(signal=15)

    async def body() -> ScriptedNode:
        node = ScriptedNode(play)
        node.takes_input = False
        async with _Run([node]) as run:
            finished = asyncio.ensure_future(run.finish())
            feeding = asyncio.ensure_future(_feed(run.client, 100))
            while len(node.input) < 128 * 1024:
                await asyncio.sleep(0.01)
            run.client.signal(15)
            await finished
            await asyncio.wait_for(feeding, 5)
        return node

    node = asyncio.run(body())
    assert len(node.input) < 256 * 1024  # what a node takes before it stops reading
    assert node.signals == [15]


async def _feed(client: StepClient, pieces: int) -> None:
    for _ in range(pieces):
        await client.send_input(b"x" * 65536)


def test_a_signal_reaches_every_node() -> None:
    async def play(node: ScriptedNode) -> None:
        await node.until(lambda: 10 in node.signals)
        await node.all_end(signal=10)

    async def body() -> list[StepEvent]:
        nodes = [ScriptedNode(play, (0,)), ScriptedNode(play, (1,))]
        async with _Run(nodes) as run:
            finished = asyncio.ensure_future(run.finish())
            run.client.signal(10)
            return await finished

    ended = [event for event in asyncio.run(body()) if isinstance(event, TaskEnded)]
    assert sorted((event.task, event.exit_signal) for event in ended) == [(0, 10), (1, 10)]


def test_a_node_where_nobody_listens_is_lost_before_it_started() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        node = ScriptedNode(lambda node: node.all_end())
        node.port = unused.getsockname()[1]
        events: list[StepEvent] = []

        async def note(event: StepEvent) -> None:
            events.append(event)

        asyncio.run(asyncio.wait_for(StepClient(a_grant([node]), LAUNCH, note).run(), 30))
    assert events == [NodeLost("n1", "Communication connection failure", started=False)]


def test_a_stream_that_breaks_is_a_lost_node_and_the_others_go_on() -> None:
    async def play_broken(node: ScriptedNode) -> None:
        await node.break_off()

    async def play(node: ScriptedNode) -> None:
        await node.output(1, b"still here\n")
        await node.all_end()

    events = _run([ScriptedNode(play_broken, (0,)), ScriptedNode(play, (1,))])
    assert NodeLost("n1", "broken off", started=True) in events
    assert TaskOutput("n2", 1, False, b"still here\n") in events
    assert NodeFinished("n2") in events


def test_abandoning_breaks_the_streams_and_ends_the_run() -> None:
    async def play(node: ScriptedNode) -> None:
        await asyncio.Event().wait()

    async def body() -> tuple[list[StepEvent], ScriptedNode]:
        node = ScriptedNode(play)
        async with _Run([node]) as run:
            finished = asyncio.ensure_future(run.finish())
            while not run.events:
                await asyncio.sleep(0)
            run.client.abandon()
            events = await finished
            deadline = asyncio.get_running_loop().time() + 5
            while not node.was_cut and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(0.01)
        return events, node

    events, node = asyncio.run(body())
    assert events == [TasksStarted("n1", (1000,))]
    assert node.was_cut


def test_a_slow_reader_slows_the_node_down() -> None:
    """While `handle` of the first output waits, the node cannot send without end."""
    sent = 0

    async def play(node: ScriptedNode) -> None:
        nonlocal sent
        for _ in range(400):
            await node.output(0, b"x" * 65536)
            sent += 1
        await node.all_end()

    async def body() -> None:
        node = ScriptedNode(play)
        servers = await serve([node])
        blocked = asyncio.Event()
        release = asyncio.Event()

        async def handle(event: StepEvent) -> None:
            if isinstance(event, TaskOutput):
                blocked.set()
                await release.wait()

        running = asyncio.ensure_future(StepClient(a_grant([node]), LAUNCH, handle).run())
        await asyncio.wait_for(blocked.wait(), 10)
        before = -1
        while before != sent:  # until the windows of the connection are full
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 300
        release.set()
        await asyncio.wait_for(running, 20)
        assert sent == 400
        await servers[0].stop(0)

    asyncio.run(body())


async def _ignore(event: StepEvent) -> None:
    return None
