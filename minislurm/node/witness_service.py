"""Witnesses for each other: a node that has lost the controller asks other nodes whether they still see
it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from minislurm.domain.errors import AccessDenied
from minislurm.domain.node import Witness
from minislurm.node.isolation import Vote
from minislurm.rpc.auth import Verifier, authorization, token_of
from minislurm.rpc.gen import node_pb2, node_pb2_grpc

log = logging.getLogger(__name__)


class WitnessService(node_pb2_grpc.WitnessServiceServicer):
    """`vote`: what this node has to say."""

    def __init__(self, vote: Callable[[], Vote], verifier: Verifier) -> None:
        self._vote = vote
        self._verifier = verifier

    async def AskController(self, request: Any, context: Any) -> Any:
        try:
            self._verifier.verify_node(token_of(context.invocation_metadata()))
        except AccessDenied as error:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        vote = self._vote()
        return node_pb2.WitnessAnswer(silence_s=vote.silence_s, up_s=vote.up_s)


async def ask(witnesses: Sequence[Witness], token: str, timeout_s: float) -> list[Vote]:
    """The answers of those that answer in time."""
    askable = [witness for witness in witnesses if witness.port]
    answers = await asyncio.gather(*[_ask_one(witness, token, timeout_s) for witness in askable])
    return [vote for vote in answers if vote is not None]


async def _ask_one(witness: Witness, token: str, timeout_s: float) -> Vote | None:
    host = f"[{witness.address}]" if ":" in witness.address else witness.address
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    try:
        async with grpc.aio.insecure_channel(f"{host}:{witness.port}", options=options) as channel:
            stub: Any = node_pb2_grpc.WitnessServiceStub(channel)
            answer = await stub.AskController(
                node_pb2.WitnessQuestion(), timeout=timeout_s, metadata=(authorization(token),)
            )
    except (grpc.aio.AioRpcError, OSError) as error:
        said = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
        log.info("witness %s does not answer: %s", witness.node, said)
        return None
    return Vote(answer.silence_s if answer.HasField("silence_s") else None, answer.up_s)
