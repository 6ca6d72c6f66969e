"""Whatever clients, clocks, journals and coordinators do, a decision stands and a zombie is nobody.

Clients of both generations begin, add, commit, abort, die, come back, and send what they sent
before; markers are reported late, twice, in part, and to coordinators that never sent them; time
passes, the watermark stands still, the journal refuses, coordinators fail over and lose what was
not committed. At every step:

1. Records of an id follow the table of states; what is prepared ends as it was prepared.
2. The identity of an id never goes back.
3. Who was fenced gets no success and writes no record.
4. A reply of success, and every marker that is sent, has its record below the watermark.
5. A transaction completes only when all its partitions were reported to this coordinator.
6. Replay, also of the compacted journal, gives the state that there is.

And once the markers are written, nothing that was prepared is incomplete.
"""

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.machine.held import NotDone
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.settings.transactions import TransactionSettings
from penstock.transactions.asking import NeedsProducerId
from penstock.transactions.decide import TransactionRequest
from penstock.transactions.enlist import Enlist
from penstock.transactions.markers import COMPLETES, MarkersWritten, SendMarkers
from penstock.transactions.records import TransactionStored
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import (
    DECIDED,
    LAST_EPOCH,
    MAY_BECOME,
    Transaction,
    TransactionState,
)
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from rig.transactions import NEVER_MS, Client, Coordinator

IDS = ("t", "u")
PARTITIONS = ("orders-0", "orders-1", "__consumer_offsets-3")
TIMES_MS = (1, 5_000, 60_000, 3_600_000)
EXPIRY_MS = 7_200_000


@dataclass
class Instance:
    """A client's process, as far as others can tell; a copy is the same process heard twice."""

    client: Client
    number: int = 0  # another one each time that it takes the id over
    is_fenced: bool = False

    @property
    def id(self) -> str:
        return self.client.transactional_id


class TransactionsUnderStress(RuleBasedStateMachine):
    @initialize(two_phase=st.booleans())
    def begin(self, two_phase: bool) -> None:
        self.coordinator = Coordinator(
            TransactionSettings(
                transaction_two_phase_commit_enable=two_phase,
                transactional_id_expiration_ms=EXPIRY_MS,
            )
        )
        self.instances: list[Instance] = []
        self.takeovers = 0
        self.sent_ever: list[SendMarkers] = []
        self.reported: dict[tuple[int, int], set[TopicPartition]] = {}
        self.fences: list[tuple[int, str]] = []  # records that fence all clients of an id

    @rule(
        id=st.sampled_from(IDS),
        generation=st.sampled_from([1, 2]),
        timeout_ms=st.sampled_from([5_000, 60_000]),
    )
    def start_client(self, id: str, generation: int, timeout_ms: int) -> None:
        client = Client(
            coordinator=self.coordinator,
            transactional_id=id,
            generation=generation,
            timeout_ms=timeout_ms,
        )
        self.instances.append(Instance(client))
        self._init(self.instances[-1])

    @precondition(lambda self: self.instances)
    @rule(
        data=st.data(),
        trade_in=st.booleans(),
        two_phase=st.booleans(),
        keep=st.booleans(),
    )
    def init(self, data: st.DataObject, trade_in: bool, two_phase: bool, keep: bool) -> None:
        instance = data.draw(st.sampled_from(self.instances))
        self._init(instance, trade_in=trade_in, two_phase=two_phase, keep=keep)

    @precondition(lambda self: self._living())
    @rule(data=st.data(), names=st.lists(st.sampled_from(PARTITIONS), max_size=3))
    def add(self, data: st.DataObject, names: list[str]) -> None:
        instance = data.draw(st.sampled_from(self._living()))
        self._send(instance, instance.client.enlist_request(*names), version=3)

    @precondition(lambda self: self._living())
    @rule(data=st.data())
    def verify(self, data: st.DataObject) -> None:
        instance = data.draw(st.sampled_from(self._living()))
        written_before = len(self.coordinator.journal.written)
        request = instance.client.enlist_request(*PARTITIONS, verify_only=True)
        self._send(instance, request, version=5)
        assert len(self.coordinator.journal.written) == written_before

    @precondition(lambda self: self._living())
    @rule(data=st.data(), committed=st.booleans())
    def end(self, data: st.DataObject, committed: bool) -> None:
        instance = data.draw(st.sampled_from(self._living()))
        request = instance.client.end_request(committed=committed)
        self._send(instance, request, version=instance.client.end_version)

    @precondition(lambda self: self._living())
    @rule(data=st.data())
    def hear_twice(self, data: st.DataObject) -> None:
        """What a client sends from here on may come again, from before it learnt more."""
        instance = data.draw(st.sampled_from(self._living()))
        self.instances.append(replace(instance, client=instance.client.copy()))

    @precondition(lambda self: self.sent_ever)
    @rule(data=st.data(), names=st.none() | st.sets(st.sampled_from(PARTITIONS)))
    def report_markers(self, data: st.DataObject, names: set[str] | None) -> None:
        self._report(data.draw(st.sampled_from(self.sent_ever[-8:])), names)

    @rule()
    def write_all_markers(self) -> None:
        for markers in list(self.coordinator.sent):
            self._report(markers, None)

    @rule(ms=st.sampled_from(TIMES_MS))
    def pass_time(self, ms: int) -> None:
        written_before = len(self.coordinator.journal.written)
        self.coordinator.pass_time(ms)
        self._note_fences(written_before)

    @rule(loses_tail=st.booleans())
    def fail_over(self, loses_tail: bool) -> None:
        self.coordinator.is_held = False
        self.coordinator.fail_over(loses_tail=loses_tail)
        written = len(self.coordinator.journal.written)
        self.fences = [(offset, id) for offset, id in self.fences if offset < written]
        self._note_sent()

    @rule(is_held=st.booleans())
    def hold_watermark(self, is_held: bool) -> None:
        self.coordinator.is_held = is_held
        self.coordinator.commit_journal()

    @rule(is_broken=st.booleans())
    def break_journal(self, is_broken: bool) -> None:
        self.coordinator.journal.is_broken = is_broken

    @rule(left=st.sampled_from([0, 1, NEVER_MS]))
    def limit_producer_ids(self, left: int) -> None:
        self.coordinator.producer_ids_left = left

    @rule(id=st.sampled_from(IDS), before_last=st.integers(0, 2))
    def wear_out(self, id: str, before_last: int) -> None:
        transaction = self.coordinator.shard.transactions.get(id)
        if transaction is None or transaction.state is not TransactionState.EMPTY:
            return
        epoch = LAST_EPOCH - before_last
        if transaction.producer_epoch < epoch and not self.coordinator.journal.is_broken:
            self.coordinator.wear_out(id, epoch=epoch)

    @invariant()
    def records_follow_the_table(self) -> None:
        last: dict[str, Transaction] = {}
        for record in self.coordinator.journal.records():
            before, after = last.get(record.transactional_id), record.value
            if after is None:
                assert before is not None and not before.is_open, record
                del last[record.transactional_id]
                continue
            last[record.transactional_id] = after
            if before is None:
                assert after.state is TransactionState.EMPTY, record
                continue
            assert after.state in MAY_BECOME[before.state], (before, after)  # 1
            assert after.identity >= before.identity, (before, after)  # 2
            if before.state in DECIDED:
                assert after.state is COMPLETES[before.state], (before, after)  # 1
                assert after.identity == before.identity, (before, after)

    @invariant()
    def replay_gives_the_same_state(self) -> None:
        records = self.coordinator.journal.records()
        compacted = {record.transactional_id: record for record in records}
        for history in (records, list(compacted.values())):
            replayed = TransactionShard(coordinator_epoch=0)
            for record in history:
                replayed.apply(record)
            assert replayed.transactions == self.coordinator.shard.transactions
            assert replayed.unmarked.keys() == self.coordinator.shard.unmarked.keys()

    @invariant()
    def markers_have_their_decision_committed(self) -> None:
        self._note_sent()
        committed = self._committed()
        for markers in self.coordinator.sent:
            assert any(is_decision(record, markers) for record in committed), markers  # 4

    @invariant()
    def fences_take_effect(self) -> None:
        watermark = self.coordinator.host.watermark
        for offset, id in self.fences:
            if offset < watermark:
                for instance in self.instances:
                    instance.is_fenced |= instance.id == id
        self.fences = [(offset, id) for offset, id in self.fences if offset >= watermark]

    def teardown(self) -> None:
        self.coordinator.journal.is_broken = False
        self.coordinator.is_held = False
        self.coordinator.commit_journal()
        for markers in list(self.coordinator.sent):
            self._report(markers, None)
        states = [transaction.state for transaction in self.coordinator.shard.transactions.values()]
        assert not DECIDED.intersection(states)

    def _living(self) -> list[Instance]:
        return [instance for instance in self.instances if instance.client.identity is not None]

    def _init(
        self,
        instance: Instance,
        *,
        trade_in: bool = False,
        two_phase: bool = False,
        keep: bool = False,
    ) -> None:
        trade_in = trade_in and instance.client.identity is not None
        request = instance.client.init_request(trade_in=trade_in, two_phase=two_phase, keep=keep)
        written_before = len(self.coordinator.journal.written)
        self._send(instance, request, version=6)
        self._note_fences(written_before)

    def _send(self, instance: Instance, request: TransactionRequest, *, version: int) -> None:
        takes_over = isinstance(request, InitProducerIdRequest) and request.producer_id < 0
        is_known = instance.id in self.coordinator.shard.transactions
        must_fail = instance.is_fenced and not takes_over and is_known
        written_before = list(self.coordinator.journal.written)

        def answer(reply: object) -> None:
            if isinstance(reply, NotDone | NeedsProducerId):
                return
            error = instance.client.told(reply)
            assert not (must_fail and error == ErrorCode.NONE), (instance, reply)  # 3
            if error == ErrorCode.NONE:
                assert self._is_committed(instance, request), (request, reply)  # 4
                if takes_over or (isinstance(request, InitProducerIdRequest) and not is_known):
                    self._took_over(instance)

        self.coordinator.send(request, answer, version=version)
        if must_fail:
            assert self.coordinator.journal.written == written_before, (instance, request)  # 3

    def _is_committed(self, instance: Instance, request: TransactionRequest) -> bool:
        """Whether a record below the watermark says what the client now believes."""
        of_id = [
            r.value for r in self._committed() if r.transactional_id == instance.id and r.value
        ]
        if isinstance(request, Enlist):
            wanted = set() if request.verify_only else set(request.partitions)
            return any(
                value.identity == request.producer and wanted <= set(value.partitions)
                for value in of_id
            )
        return any(value.identity == instance.client.identity for value in of_id)

    def _took_over(self, instance: Instance) -> None:
        self.takeovers += 1
        instance.number, instance.is_fenced = self.takeovers, False
        for other in self.instances:
            if other.id == instance.id and other.number != instance.number:
                other.is_fenced = True

    def _note_fences(self, written_before: int) -> None:
        """Aborts by the coordinator fence whoever has the id, once they are committed."""
        for offset, record in enumerate(self.coordinator.journal.records()):
            is_abort = record.value and record.value.state is TransactionState.PREPARE_ABORT
            if offset >= written_before and is_abort:
                self.fences.append((offset, record.transactional_id))
        self.fences_take_effect()

    def _note_sent(self) -> None:
        for markers in self.coordinator.sent:
            if markers not in self.sent_ever:
                self.sent_ever.append(markers)

    def _report(self, markers: SendMarkers, names: set[str] | None) -> None:
        written = tuple(p for p in markers.partitions if names is None or str(p) in names)
        told = self.reported.setdefault((markers.coordinator_epoch, markers.number), set())
        if markers.coordinator_epoch == self.coordinator.shard.coordinator_epoch:
            told.update(written)
        journal = self.coordinator.journal
        completed_before = len(journal.written)
        report = MarkersWritten(
            transactional_id=markers.transactional_id,
            number=markers.number,
            coordinator_epoch=markers.coordinator_epoch,
            partitions=written,
        )
        self.coordinator.send(report, lambda _: None)
        if len(journal.written) > completed_before:
            assert told == set(markers.partitions), (markers, told)  # 5

    def _committed(self) -> list[TransactionStored]:
        return self.coordinator.journal.records()[: self.coordinator.host.watermark]


def is_decision(record: TransactionStored, markers: SendMarkers) -> bool:
    value = record.value
    return (
        value is not None
        and record.transactional_id == markers.transactional_id
        and value.is_decided
        and markers.commit == (value.state is TransactionState.PREPARE_COMMIT)
        and value.writer == (markers.producer_id, markers.producer_epoch)
        and value.partitions == markers.partitions
    )


TransactionsUnderStress.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestTransactionsUnderStress = TransactionsUnderStress.TestCase
