"""One conversation with a broker at the level of protocol messages, written down for comparison.

The same conversation is had with Penstock and with Apache Kafka; what each answered is kept in
plain values, without what cannot be the same: ids, addresses, clocks and the wording of errors.
"""

import socket
import sys
from typing import Any

from penstock.wire.definition import Message, Struct
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

PATIENCE_SECONDS = 120
COORDINATOR_LOAD_IN_PROGRESS = 14
UNLIKE = frozenset(
    {
        "throttle_time_ms",
        "error_message",
        "batch_index_error_message",
        "host",
        "port",
        "node_id",
        "leader_id",
        "controller_id",
        "cluster_id",
        "topic_id",
        "producer_id",
        "session_id",
        "heartbeat_interval_ms",
        "log_append_time_ms",
        "replica_nodes",
        "isr_nodes",
    }
)


class Dialogue:
    def __init__(self, bootstrap: str, topic: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.topic = topic
        self.answers: list[Any] = []
        self._asked = 0
        self._settled = 0
        self._socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS)

    def create_topic(self, *, partitions: int = 1, **settings: str) -> bytes:
        """Makes the topic of this conversation and returns its id; neither is written down."""
        configs = [
            CreatableTopicConfig(name=name.replace("_", "."), value=value)
            for name, value in settings.items()
        ]
        wanted = CreatableTopic(
            name=self.topic, num_partitions=partitions, replication_factor=1, configs=configs
        )
        [created] = self.exchange(CreateTopicsRequest(topics=[wanted]), version=7).topics
        assert created.error_code == 0, created
        self._await_leaders(self.topic, partitions)
        return bytes(created.topic_id)

    def settle(self) -> str:
        """Returns when the broker has seen all that the controller decided up to now.

        Metadata reaches it in order, so a topic made now proves, once led, what was before it. Its
        name is the answer.
        """
        self._settled += 1
        name = f"{self.topic}-settled-{self._settled}"
        wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        self.exchange(CreateTopicsRequest(topics=[wanted]), version=7)
        self._await_leaders(name, 1)
        return name

    def _await_leaders(self, topic: str, partitions: int) -> None:
        """The leader is there a moment after the controller has answered."""
        parts = [ListOffsetsPartition(partition_index=index) for index in range(partitions)]
        asked = ListOffsetsTopic(name=topic, partitions=parts)
        question = ListOffsetsRequest(replica_id=-1, topics=[asked])
        while True:
            [answer] = self.exchange(question, version=7).topics
            if all(one.error_code == 0 for one in answer.partitions):
                return

    def ask_until_loaded(self, request: Message, *, version: int) -> Any:
        """As `ask`, past the moments in which a broker that has just started says "not yet"."""
        while self.exchange(request, version=version).error_code == COORDINATOR_LOAD_IN_PROGRESS:
            pass
        return self.ask(request, version=version)

    def ask(self, request: Message, *, version: int) -> Any:
        """Asks, writes the answer down, and returns it."""
        answer = self.exchange(request, version=version)
        self.answers.append((type(request).__name__, version, plain(answer)))
        return answer

    def exchange(self, request: Message, *, version: int) -> Any:
        self.send(request, version=version)
        return self.reply_to(request, version=version)

    def send(self, request: Message, *, version: int) -> None:
        """Sends it, and waits for nothing: `reply_to` does, before the next one is sent."""
        self._asked += 1
        parts = encode_request(
            request, version=version, correlation_id=self._asked, client_id="dialogue"
        )
        self._socket.sendall(b"".join(bytes(part) for part in parts))

    def reply_to(self, request: Message, *, version: int) -> Any:
        size = int.from_bytes(self._receive(4), "big")
        frame = memoryview(self._receive(size))
        assert int.from_bytes(frame[:4], "big") == self._asked
        return decode_response(reply_class(request), version, frame)

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            more = self._socket.recv(count - len(received))
            if not more:
                raise ConnectionError("the broker closed the connection")
            received += more
        return bytes(received)

    def close(self) -> None:
        self._socket.close()


def reply_class(request: Message) -> type[Message]:
    """A reply stands beside its request, under the same name but for its last word."""
    kind = type(request)
    found: type[Message] = getattr(
        sys.modules[kind.__module__], kind.__name__.removesuffix("Request") + "Response"
    )
    return found


def plain(value: Any) -> Any:
    if isinstance(value, Struct | Message):
        return {
            name: plain(getattr(value, name))
            for name in type(value).__slots__
            if name not in UNLIKE
        }
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return value
