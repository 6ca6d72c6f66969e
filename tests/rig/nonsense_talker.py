"""Sends drawn requests to one listener, several in flight, over one connection after another."""

import asyncio
from typing import cast

from penstock.wire.definition import Message
from penstock.wire.framing import FrameReader
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.wire.messages.fetch import FetchRequest, FetchResponse
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, Stream
from penstock.world.tcp import TcpNetwork
from rig.nonsense_requests import Absurd

IN_FLIGHT_MAX = 8
REPLY_SECONDS_MAX = 120


class Talker:
    """One connection after another: who asks absurdly is hung up on now and then."""

    def __init__(self, address: Address, absurd: Absurd) -> None:
        self._address = address
        self._absurd = absurd
        self._stream: Stream | None = None
        self._frames = FrameReader(frame_bytes_max=2**30)
        self._asked: list[tuple[Message, int]] = []

    async def ask(self, message: Message, version: int) -> None:
        if self._stream is None:
            self._stream = await TcpNetwork().connect(self._address)
            self._frames = FrameReader(frame_bytes_max=2**30)
            self._asked = []
        client_id = self._absurd.client_id()
        parts = encode_request(message, version=version, correlation_id=7, client_id=client_id)
        try:
            await self._stream.send([cast(bytes, part) for part in parts])
        except NetworkError:
            self._hang_up()
            return
        if getattr(message, "acks", None) != 0:
            self._asked.append((message, version))
        if len(self._asked) >= IN_FLIGHT_MAX:
            await self.hear_all()

    async def hear_all(self) -> None:
        """Takes every reply that is owed, or the end of the connection."""
        while self._stream is not None and self._asked:
            frame = self._frames.next_frame()
            if frame is not None:
                self._learn(frame, *self._asked.pop(0))
                continue
            try:
                view = self._frames.receive_view()
                count = await asyncio.wait_for(self._stream.receive_into(view), REPLY_SECONDS_MAX)
            except NetworkError:
                count = 0
            self._frames.received(count)
            if count == 0:
                self._hang_up()

    def close(self) -> None:
        self._hang_up()

    def _hang_up(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _learn(self, frame: memoryview, asked: Message, version: int) -> None:
        """What a reply gives away is drawn later, by this one or by another connection."""
        if isinstance(asked, FetchRequest):
            reply = decode_response(FetchResponse, version, frame)
            if reply.session_id and reply.session_id not in self._absurd.sessions:
                self._absurd.sessions = [*self._absurd.sessions[-3:], reply.session_id]
        elif isinstance(asked, MetadataRequest):
            for topic in decode_response(MetadataResponse, version, frame).topics:
                if topic.topic_id not in self._absurd.topic_ids:
                    self._absurd.topic_ids = [*self._absurd.topic_ids[-5:], topic.topic_id]
        elif isinstance(asked, JoinGroupRequest):
            self._learn_member(decode_response(JoinGroupResponse, version, frame).member_id)
        elif isinstance(asked, ConsumerGroupHeartbeatRequest):
            told = decode_response(ConsumerGroupHeartbeatResponse, version, frame)
            self._learn_member(told.member_id or "")

    def _learn_member(self, member_id: str) -> None:
        if member_id not in self._absurd.member_ids:
            self._absurd.member_ids = ["", *self._absurd.member_ids[-3:], member_id]


async def assert_serves(address: Address) -> None:
    stream = await TcpNetwork().connect(address)
    parts = encode_request(ApiVersionsRequest(), version=0, correlation_id=1, client_id="sane")
    await stream.send([cast(bytes, part) for part in parts])
    frames = FrameReader(frame_bytes_max=2**20)
    while (frame := frames.next_frame()) is None:
        count = await stream.receive_into(frames.receive_view())
        assert count > 0, "the node hung up on a sane request"
        frames.received(count)
    assert decode_response(ApiVersionsResponse, 0, frame).error_code == 0
    stream.close()
