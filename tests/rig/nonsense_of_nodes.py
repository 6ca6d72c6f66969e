"""Requests of nodes that make little sense, aimed well enough to get past the first checks.

Many fields are drawn as a node of this cluster would set them: its cluster id, the metadata topic,
the directory ids, the present epoch. The rest is as absurd as in `nonsense_requests`. Living
brokers are not impersonated with their own epoch, nor unregistered, and no voter is told to lead an
epoch that it does not know: that ends them, as intended.
"""

import random
from collections.abc import Sequence

from penstock.broker.request.api_table import AnyApi
from penstock.metadata.records import FEATURE_LEVELS
from penstock.model.identity import METADATA_TOPIC, METADATA_TOPIC_ID
from penstock.wire.api import ApiKey
from penstock.wire.definition import Field, Kind, Message
from penstock.wire.header import encode_request
from penstock.wire.messages.envelope import EnvelopeRequest
from penstock.wire.messages.registration_parts import SupportedFeature
from rig.node_cluster import CLUSTER_ID
from rig.nonsense_requests import Absurd

QUORUM_APIS = frozenset(
    {ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH,
     ApiKey.END_QUORUM_EPOCH, ApiKey.DESCRIBE_QUORUM}
)  # fmt: skip
HOSTS = ["127.0.0.1", "", "a\0b", "..", "x" * 300, "é" * 16383, "::1", "256.1.1.1"]
OUTSIDERS = (7, 8, -1, -2, 2**31 - 1)
SIZE_BYTES = 4


class AbsurdNode(Absurd):
    """Draws what a node could send. `aims` are good values by the name of a field."""

    def __init__(self, dice: random.Random, apis: Sequence[tuple[AnyApi, int]]) -> None:
        super().__init__(dice)
        self.apis = apis
        self.aims: dict[str, Sequence[object]] = {}
        self._is_of_quorum = False

    def aim(
        self, *, epoch: int, end_offset: int, broker_epochs: Sequence[int], directories: list[bytes]
    ) -> None:
        """As the cluster is now."""
        near = [epoch, epoch, epoch + 1, epoch + 2]
        ids = [1, 2, 3, *OUTSIDERS]
        offsets = [end_offset, end_offset, end_offset - 1, 0, 2**63 - 1]
        self.aims = {
            "cluster_id": [CLUSTER_ID],
            "topic_name": [METADATA_TOPIC],
            "topic_id": [METADATA_TOPIC_ID],
            "replica_epoch": near,
            "leader_epoch": near,
            "current_leader_epoch": near,
            "last_offset_epoch": [epoch, epoch, 0, -1],
            "last_fetched_epoch": [epoch, epoch, 0, -1],
            "last_offset": offsets,
            "fetch_offset": offsets,
            "replica_id": ids,
            "leader_id": OUTSIDERS,
            "candidate_id": ids,
            "voter_id": [1, 2, 3, -1, -1],
            "voter_directory_id": [*directories, bytes(16), bytes(16)],
            "replica_directory_id": [*directories, bytes(16)],
            "broker_id": OUTSIDERS,
            "controller_id": OUTSIDERS,
            "broker_epoch": [-1, *broker_epochs],
            "current_metadata_offset": [2**63 - 1, end_offset],
            "want_shut_down": [False, False, True],
            "host": HOSTS,
            "controller_epoch": [-1, epoch],
            "features": [
                [
                    SupportedFeature(
                        name=name, min_supported_version=0, max_supported_version=level
                    )
                    for name, level in FEATURE_LEVELS.items()
                ]
            ],
            "incarnation_id": [self.dice.randbytes(16)],
            "log_dirs": [[self.dice.randbytes(16)], [self.dice.randbytes(16) for _ in range(999)]],
        }

    def message(self, cls: type[Message], version: int) -> Message:
        self._is_of_quorum = cls.API_KEY in QUORUM_APIS
        if cls is EnvelopeRequest and self.dice.random() < 0.8:
            return EnvelopeRequest(request_data=self._inner(), client_host_address=b"\x7f\0\0\1")
        return super().message(cls, version)

    def _inner(self) -> bytes:
        """A request without its frame: of any API, forwardable or not, whole or not."""
        dice = self.dice
        api, version = dice.choice(self.apis)
        drawn = EnvelopeRequest() if api.request is EnvelopeRequest else None
        drawn = drawn or super().message(api.request, version)
        parts = encode_request(drawn, version=version, correlation_id=1, client_id="inner")
        data = b"".join(bytes(part) for part in parts)[SIZE_BYTES:]  # type: ignore[arg-type]
        chance = dice.random()
        if chance < 0.15:
            return data[: dice.randrange(len(data))]
        if chance < 0.3:
            return data[:2] + dice.choice([-1, 99, 32767]).to_bytes(2, signed=True) + data[4:]
        return data

    def _value(self, one: Field, version: int, name: str) -> object:
        aimed = self.aims.get(name)
        if self._is_of_quorum and name == "name":
            aimed = [METADATA_TOPIC]
        # An element has the name of its array.
        fits = aimed is not None and isinstance(aimed[0], list) is (one.kind is Kind.ARRAY)
        if aimed is not None and fits and self.dice.random() >= self._wildness:
            return self.dice.choice(aimed)
        return super()._value(one, version, name)
