"""A controller without journal or clock: requests are decided and applied at once."""

from penstock.broker.controller.registration import registration_of
from penstock.metadata.controller.broker_sessions import BrokerSessions, GoneBy
from penstock.metadata.controller.brokers import bootstrap_records
from penstock.metadata.controller.contact import note_contact
from penstock.metadata.controller.decide import (
    ControllerReply,
    ControllerRequest,
    decide,
)
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.explained import Explained, explained
from penstock.metadata.controller.fencing import FenceBrokers, GoneBroker
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.effective import effective_broker
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import TopicImage
from penstock.metadata.loader import Loader
from penstock.metadata.records import MetadataRecord
from penstock.model.identity import NodeId, TopicId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.broker import parse_broker
from penstock.security.principal import ANONYMOUS
from penstock.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from penstock.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from penstock.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CLUSTER_ID = "cluster-of-the-test"


class Cluster:
    """`brokers` of them, registered and unfenced; settings are given as keywords."""

    def __init__(self, brokers: int = 1, **settings: str) -> None:
        self.settings = parse_broker(
            {name.replace("_", "."): value for name, value in settings.items()}
        )
        self.records: list[MetadataRecord] = []
        self.explained: list[Explained] = []  # what the controller would log
        self.state = ControllerState()
        self.sessions = self._fresh_sessions()
        self.now_ms = self.wall_ms = 0
        self.requester = ANONYMOUS
        self._loader = Loader()
        self.check_state = self.check_image = True
        self._ids = 0
        self._apply(bootstrap_records(min_insync_replicas=self.settings.min_insync_replicas))
        for node_id in range(1, brokers + 1):
            self.register(NodeId(node_id))
            self.unfence(NodeId(node_id))

    @property
    def image(self) -> Image:
        return self._loader.image

    def topic(self, name: str) -> TopicImage:
        return self.image.topics_by_name[name]

    def ask(self, request: ControllerRequest) -> ControllerReply:
        """RequestError when the whole request is refused."""
        context = DecisionContext(
            state=self.state,
            sessions=self.sessions,
            now_ms=self.now_ms,
            wall_ms=self.wall_ms,
            cluster_id=CLUSTER_ID,
            node_id=self.settings.node_id,
            settings=effective_broker(self.settings, self.state, self.settings.node_id),
            next_offset=Offset(len(self.records)),
            fresh_ids=[self._fresh_id() for _ in range(100)],
            requester=self.requester,
        )
        decision = decide(context, request)
        self.explained += explained(self.state, request, decision.records)
        self._apply(decision.records)
        return decision.reply

    def create(self, name: str, partitions: int = 1, replicas: int = 1, **config: str) -> TopicId:
        """A topic that can be created."""
        result = self.try_create(name, partitions, replicas, **config)
        assert result.error_code == 0, result
        return TopicId(result.topic_id)

    def try_create(
        self, name: str, partitions: int = 1, replicas: int = 1, **config: str
    ) -> CreatableTopicResult:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in config.items()
            ],
        )
        reply = self.ask(CreateTopicsRequest(topics=[topic]))
        assert isinstance(reply, CreateTopicsResponse)
        return reply.topics[0]

    def register(
        self, node_id: NodeId, *, incarnation: int = 0, previous_broker_epoch: int | None = None
    ) -> int:
        """The broker's epoch. RequestError when it is refused."""
        reply = self.ask(
            self.registration(
                node_id, incarnation=incarnation, previous_broker_epoch=previous_broker_epoch
            )
        )
        assert isinstance(reply, BrokerRegistrationResponse)
        return reply.broker_epoch

    def registration(
        self,
        node_id: NodeId,
        *,
        incarnation: int = 0,
        previous_broker_epoch: int | None = None,
        port: int | None = None,
    ) -> BrokerRegistrationRequest:
        """What a process says of itself; the test may change it before it is asked."""
        address = Endpoint(listener="PLAINTEXT", host="localhost", port=port or 9092 + node_id)
        return registration_of(
            node_id=node_id,
            cluster_id=CLUSTER_ID,
            incarnation=bytes((node_id, incarnation)) + bytes(14),
            rack=None,
            endpoints=(address,),
            directories=(bytes((node_id,)) * 16,),
            previous_broker_epoch=previous_broker_epoch,
        )

    def elect(self) -> None:
        """Another controller, which has heard from nobody yet."""
        self.sessions = self._fresh_sessions()
        self.sessions.begin(self.state.brokers.values(), self.now_ms)

    def fence(self, *node_ids: NodeId) -> None:
        """The brokers' sessions have ended."""
        self.ask(
            FenceBrokers(
                gone=tuple(
                    GoneBroker(
                        node_id=node_id,
                        broker_epoch=self.state.brokers[node_id].epoch,
                        by=GoneBy.SESSION,
                    )
                    for node_id in node_ids
                )
            )
        )

    def unfence(self, node_id: NodeId) -> None:
        assert not self.heartbeat(node_id).is_fenced

    def heartbeat(
        self,
        node_id: NodeId,
        *,
        want_fence: bool = False,
        want_shut_down: bool = False,
        metadata_offset: int | None = None,
    ) -> BrokerHeartbeatResponse:
        """From the registered process, which has applied everything unless told otherwise."""
        reply = self.ask(
            BrokerHeartbeatRequest(
                broker_id=node_id,
                broker_epoch=self.image.brokers[node_id].epoch,
                current_metadata_offset=(
                    len(self.records) - 1 if metadata_offset is None else metadata_offset
                ),
                want_fence=want_fence,
                want_shut_down=want_shut_down,
            )
        )
        assert isinstance(reply, BrokerHeartbeatResponse)
        return reply

    def beat(self, node_id: NodeId, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        """A heartbeat that the controller's sessions take note of."""
        return self.heartbeat_at(node_id, len(self.records) - 1, want_shut_down=want_shut_down)

    def heartbeat_at(
        self, node_id: NodeId, metadata_offset: int, *, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        """As `beat`, from a broker that has applied the records up to this one."""
        request = BrokerHeartbeatRequest(
            broker_id=node_id,
            broker_epoch=self.image.brokers[node_id].epoch,
            current_metadata_offset=metadata_offset,
            want_shut_down=want_shut_down,
        )
        count = len(self.records)
        reply = self.ask(request)
        assert isinstance(reply, BrokerHeartbeatResponse)
        note_contact(
            self.sessions,
            request,
            reply,
            connection=f"from {node_id}",
            last_offset=len(self.records) - 1,
            has_records=len(self.records) > count,
            now_ms=self.now_ms,
        )
        return reply

    def shut_down(self, node_id: NodeId) -> None:
        """The broker asks, the others apply each of its steps, and it goes."""
        for _ in range(10):
            if self.beat(node_id, want_shut_down=True).should_shut_down:
                return
            for other, broker in self.image.brokers.items():
                if other != node_id and not broker.fenced:
                    self.beat(other)
        raise AssertionError(f"broker {node_id} may not go")

    def alter_isr(self, topic: str, *isr: NodeId, index: int = 0) -> None:
        """The leader of a partition has asked for this in-sync set."""
        code = self.try_alter_isr(topic, *isr, index=index)
        assert code == 0, code

    def try_alter_isr(self, topic: str, *isr: NodeId, index: int = 0) -> int:
        """The error code that the leader of a partition gets which asks for this in-sync set."""
        found = self.topic(topic)
        partition = found.partitions[index]
        assert partition.leader is not None, partition
        reply = self.ask(
            AlterPartitionRequest(
                broker_id=partition.leader,
                broker_epoch=self.image.brokers[partition.leader].epoch,
                topics=[
                    AlterPartitionTopic(
                        topic_id=found.topic_id,
                        partitions=[
                            AlterPartitionData(
                                partition_index=index,
                                leader_epoch=partition.leader_epoch,
                                partition_epoch=partition.partition_epoch,
                                new_isr_with_epochs=[
                                    BrokerState(
                                        broker_id=node_id,
                                        broker_epoch=self.image.brokers[node_id].epoch,
                                    )
                                    for node_id in isr
                                ],
                            )
                        ],
                    )
                ],
            )
        )
        assert isinstance(reply, AlterPartitionResponse)
        return reply.topics[0].partitions[0].error_code

    def follow(self, *records: MetadataRecord) -> None:
        """Records that no request of ours leads to."""
        self._apply(records)

    def _apply(self, records: tuple[MetadataRecord, ...]) -> None:
        if not records:
            return
        for record in records:
            self.state.apply(record)
        self.records.extend(records)
        self._loader.load(records, next_offset=Offset(len(self.records)), epoch=LeaderEpoch(1))
        if self.check_state:
            self.state.check()
        if self.check_image:
            self.image.check()

    def _fresh_sessions(self) -> BrokerSessions:
        return BrokerSessions(
            self.settings.node_id, timeout_ms=self.settings.broker_session_timeout_ms
        )

    def _fresh_id(self) -> TopicId:
        self._ids += 1
        return TopicId(self._ids.to_bytes(16))
