"""Whatever clients, clocks, journals and coordinators do, a decision stands and a zombie is nobody.

Clients of both generations begin, add, commit, abort, die, come back, and send what they sent
before; markers are reported late, twice, in part, and to coordinators that never sent them; time
passes, the watermark stands still, the journal refuses, coordinators fail over and lose what was
not committed. At every step:

1. Records of an id follow the table of states; what is prepared ends as it was prepared.
2. The identity of an id never goes back.
3. Who was fenced gets no success and writes no record. Only the one whose transaction was aborted,
   and whom nobody followed, may still abort or trade its identity in.
4. A reply of success, and every marker that is sent, has its record below the watermark.
5. A transaction completes only when all its partitions were reported to this coordinator.
6. No time-out ends a transaction of a two-phase commit.
7. A transaction that was kept for another client does not grow.
8. Replay, also of the compacted journal, gives the state that there is.

And once the markers are written, nothing that was prepared is incomplete.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.machine.held_replies import NotDone
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.settings.transactions import TransactionSettings
from penstock.transactions.decide import TransactionRequest
from penstock.transactions.decision_context import NeedsProducerId
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
from penstock.wire.messages.end_txn import EndTxnRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from rig.transactions import NEVER_MS, Client, Coordinator

S = TransactionState
IDS = ("t", "t", "t", "u")
PARTITIONS = ("orders-0", "orders-1", "__consumer_offsets-3")
REQUESTS = ("init", "trade in", "add", "verify", "commit", "abort")
TIMES_MS = (1, 5_000, 60_000, 3_600_000)
EXPIRY_MS = 7_200_000


@dataclass
class Instance:
    """A client's process, as far as others can tell; a copy is the same process heard twice."""

    client: Client
    number: int = 0  # another one each time that it takes the id over
    is_fenced: bool = False  # its transaction was aborted
    is_superseded: bool = False  # another one took the id over

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
        self.fences: list[tuple[int, Transaction]] = []  # aborts that fence all clients of an id

    @rule(
        id=st.sampled_from(IDS),
        generation=st.sampled_from([1, 2]),
        timeout_ms=st.sampled_from([5_000, 60_000]),
        keeps=st.booleans(),
        data=st.data(),
    )
    def start_client(
        self, id: str, generation: int, timeout_ms: int, keeps: bool, data: st.DataObject
    ) -> None:
        """An id gets another client; what its former ones sent may arrive afterwards."""
        zombies = [instance for instance in self._living() if instance.id == id][-2:]
        client = Client(
            coordinator=self.coordinator,
            transactional_id=id,
            generation=generation,
            timeout_ms=timeout_ms,
        )
        self.instances.append(Instance(client))
        may_keep = self.coordinator.settings.transaction_two_phase_commit_enable and keeps
        self._init(self.instances[-1], two_phase=may_keep, keep=may_keep)
        for zombie in zombies:
            self._send_some(zombie, data.draw(st.sampled_from(REQUESTS)), data)

    @precondition(lambda self: self.instances)
    @rule(data=st.data(), steps=st.integers(1, 6), is_written=st.booleans())
    def work(self, data: st.DataObject, steps: int, is_written: bool) -> None:
        """A client does what real ones do, for some steps of its loop."""
        instance = data.draw(st.sampled_from(self.instances[-3:]))
        for _ in range(steps):
            self._act(instance, data)
            if is_written:
                self.write_all_markers()

    @precondition(lambda self: self._living())
    @rule(data=st.data(), request=st.sampled_from(REQUESTS))
    def send_anything(self, data: st.DataObject, request: str) -> None:
        """A client that is confused, late, or not the one that it thinks it is."""
        self._send_some(data.draw(st.sampled_from(self._living()[-5:])), request, data)

    @precondition(lambda self: self._living())
    @rule(data=st.data(), steps=st.integers(0, 3), request=st.sampled_from(REQUESTS))
    def hear_twice(self, data: st.DataObject, steps: int, request: str) -> None:
        """Some of what a client sent comes again, from before it learnt more."""
        instance = data.draw(st.sampled_from(self._living()[-5:]))
        before = replace(instance, client=instance.client.copy())
        self.instances.insert(0, before)
        if request in ("commit", "abort"):
            self._send_some(instance, request, data)
        for _ in range(steps):
            self._act(instance, data)
        self.write_all_markers()
        self._send_some(before, data.draw(st.sampled_from(REQUESTS)), data)

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
        transactions = dict(self.coordinator.shard.transactions)
        self.coordinator.pass_time(ms)
        for record in self.coordinator.journal.records()[written_before:]:
            before = transactions[record.transactional_id]
            is_expiry = record.value is None and not before.is_open
            assert is_expiry or not before.is_two_phase, record  # 6
        self._note_fences(written_before)

    @rule(loses_tail=st.booleans(), is_compacted=st.booleans())
    def fail_over(self, loses_tail: bool, is_compacted: bool) -> None:
        self.coordinator.is_held = False
        self.coordinator.fail_over(loses_tail=loses_tail, is_compacted=is_compacted)
        written = len(self.coordinator.journal.written)
        self.fences = [fence for fence in self.fences if fence[0] < written]
        self._note_sent()

    @rule(is_held=st.booleans())
    def hold_watermark(self, is_held: bool) -> None:
        self.coordinator.is_held = is_held
        self.coordinator.commit_journal()

    @precondition(lambda self: self.instances)
    @rule(data=st.data(), is_broken=st.booleans(), ms=st.sampled_from(TIMES_MS))
    def go_without(self, data: st.DataObject, is_broken: bool, ms: int) -> None:
        """For a while the journal takes nothing, or there are no producer ids."""
        journal, written_before = self.coordinator.journal, self.coordinator.journal.end_offset
        self.coordinator.producer_ids_left, journal.is_broken = 0, is_broken
        self.work(data=data, steps=2, is_written=True)
        self.pass_time(ms=ms)
        assert not is_broken or journal.end_offset == written_before
        self.coordinator.producer_ids_left, journal.is_broken = NEVER_MS, False

    @rule(before_last=st.integers(0, 2))
    def wear_out(self, before_last: int) -> None:
        for id, transaction in list(self.coordinator.shard.transactions.items()):
            epoch = LAST_EPOCH - before_last
            if transaction.state is S.EMPTY and transaction.producer_epoch < epoch:
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
                assert after.state is S.EMPTY, record
                continue
            assert after.state in MAY_BECOME[before.state], (before, after)  # 1
            assert after.identity >= before.identity, (before, after)  # 2
            if before.state in DECIDED:
                assert after.state is COMPLETES[before.state], (before, after)  # 1
                assert after.identity == before.identity, (before, after)
            if before.is_kept and after.is_open:
                assert after.partitions == before.partitions, (before, after)  # 7

    @invariant()
    def replay_gives_the_same_state(self) -> None:
        journal = self.coordinator.journal
        for history in (journal.records(), journal.compacted()):
            replayed = TransactionShard(coordinator_epoch=0)
            for record in history:
                replayed.apply(record)
            assert replayed.transactions == self.coordinator.shard.transactions
            # 8
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
        for offset, aborted in self.fences:
            for instance in self._living():
                held = instance.client.identity
                assert held is not None
                is_of_it = instance.id == aborted.transactional_id and held < aborted.identity
                instance.is_fenced |= is_of_it and offset < watermark
        self.fences = [fence for fence in self.fences if fence[0] >= watermark]

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

    def _send_some(self, instance: Instance, request: str, data: st.DataObject) -> None:
        client, written_before = instance.client, len(self.coordinator.journal.written)
        match request:
            case "init" | "trade in":
                flags = data.draw(st.tuples(st.booleans(), st.booleans()))
                trade_in = request == "trade in"
                self._init(instance, trade_in=trade_in, two_phase=flags[0], keep=flags[1])
            case "add":
                names = data.draw(st.lists(st.sampled_from(PARTITIONS), max_size=3))
                self._send(instance, client.enlist_request(*names), version=3)
            case "verify":
                asked = client.enlist_request(*PARTITIONS, verify_only=True)
                self._send(instance, asked, version=5)
                assert len(self.coordinator.journal.written) == written_before
            case _:
                ended = client.end_request(committed=request == "commit")
                self._send(instance, ended, version=client.end_version)

    def _act(self, instance: Instance, data: st.DataObject) -> None:
        client = instance.client
        transaction = self.coordinator.shard.transactions.get(instance.id)
        is_nobody = client.identity is None or instance.is_fenced or instance.is_superseded
        if is_nobody or transaction is None:
            self._init(instance)
        elif transaction.state is S.ONGOING:
            request = client.end_request(committed=data.draw(st.booleans()))
            self._send(instance, request, version=client.end_version)
        else:
            name = data.draw(st.sampled_from(PARTITIONS))
            self._send(instance, client.enlist_request(name, PARTITIONS[0]), version=3)

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
        recovers = self._may_recover(instance, request)
        is_fenced = instance.is_superseded or (instance.is_fenced and not recovers)
        must_fail = is_fenced and not takes_over and is_known
        written_before = list(self.coordinator.journal.written)

        def answer(reply: object) -> None:
            if isinstance(reply, NotDone | NeedsProducerId):
                return
            error = instance.client.told(reply)
            assert not (must_fail and error == ErrorCode.NONE), (instance, reply)  # 3
            if error == ErrorCode.NONE:
                assert self._is_committed(instance, request), (request, reply)  # 4
                instance.is_fenced &= not recovers
                if takes_over or (isinstance(request, InitProducerIdRequest) and not is_known):
                    self._took_over(instance)

        self.coordinator.send(request, answer, version=version)
        if must_fail:
            assert self.coordinator.journal.written == written_before, (instance, request)  # 3

    def _may_recover(self, instance: Instance, request: TransactionRequest) -> bool:
        """Whether the next identity was given to nobody, and this is how to ask for it."""
        transaction = self.coordinator.shard.transactions.get(instance.id)
        held = instance.client.identity
        if transaction is None or held is None or transaction.identity != held.bumped():
            return False
        match request:
            case InitProducerIdRequest():
                return True
            case EndTxnRequest():
                return not request.committed
            case _:
                return False

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
        told = [value for value in of_id if value.identity == instance.client.identity]
        if isinstance(request, EndTxnRequest):
            decision = S.PREPARE_COMMIT if request.committed else S.PREPARE_ABORT
            return any(value.state is decision for value in told)
        return bool(told)

    def _took_over(self, instance: Instance) -> None:
        self.takeovers += 1
        instance.number, instance.is_fenced, instance.is_superseded = self.takeovers, False, False
        for other in self.instances:
            if other.id == instance.id and other.number != instance.number:
                other.is_superseded = True

    def _note_fences(self, written_before: int) -> None:
        """Aborts by the coordinator fence whoever has the id, once they are committed."""
        for offset, record in enumerate(self.coordinator.journal.records()):
            value = record.value
            if offset >= written_before and value is not None and value.state is S.PREPARE_ABORT:
                self.fences.append((offset, value))
        self.fences_take_effect()

    def _note_sent(self) -> None:
        for markers in self.coordinator.sent:
            if markers not in self.sent_ever[-40:]:
                self.sent_ever.append(markers)

    def _report(self, markers: SendMarkers, names: set[str] | None) -> None:
        written = tuple(p for p in markers.partitions if names is None or str(p) in names)
        told = self.reported.setdefault((markers.coordinator_epoch, markers.number), set())
        if markers.coordinator_epoch == self.coordinator.shard.coordinator_epoch:
            told.update(written)
        shard, journal = self.coordinator.shard, self.coordinator.journal
        undone = shard.unmarked.get(markers.transactional_id)
        before = shard.transactions.get(markers.transactional_id)
        written_before = len(journal.written)
        report = MarkersWritten(
            transactional_id=markers.transactional_id,
            number=markers.number,
            coordinator_epoch=markers.coordinator_epoch,
            partitions=written,
        )
        self.coordinator.send(report, lambda _: None)
        if len(journal.written) > written_before:
            assert undone is not None and before is not None
            told = self.reported[shard.coordinator_epoch, undone.number]
            assert told == set(before.partitions), (markers, told)  # 5

    def _committed(self) -> Sequence[TransactionStored]:
        return self.coordinator.journal.records()[: self.coordinator.host.watermark]


def is_decision(record: TransactionStored, markers: SendMarkers) -> bool:
    value = record.value
    return (
        value is not None
        and record.transactional_id == markers.transactional_id
        and value.is_decided
        and markers.commit == (value.state is S.PREPARE_COMMIT)
        and value.writer == (markers.producer_id, markers.producer_epoch)
        and value.partitions == markers.partitions
    )


TransactionsUnderStress.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestTransactionsUnderStress = TransactionsUnderStress.TestCase
