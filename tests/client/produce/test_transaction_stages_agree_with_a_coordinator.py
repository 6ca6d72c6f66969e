"""Producers and a coordinator under every history: what a producer was told is what was decided.

The rules of the client meet those of the coordinator, without sockets. Requests and replies are
lost, the coordinator moves, transactions time out, and two producers share one transactional id.
Each transaction writes to a partition of its own name, so that markers tell which one was ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.network.errors import ConnectionLost, Fenced, Refused
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transaction import (
    ProducerTransaction,
    Stage,
    Wish,
    begun,
    closing,
    ended,
    ending,
    enlisted,
    harmed,
    identified,
    prepared,
    refusal,
    touched,
)
from penstock.client.produce.transaction_answers import NOT_YET, Answer, Asked, Asking, Verdict
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.transactions.enlist import Enlist, Enlisted
from penstock.transactions.state import Identity
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from rig.transactions import Coordinator, identity

TIMEOUT_MS = 1_000
Reply = InitProducerIdResponse | EndTxnResponse | Enlisted


@dataclass
class Truth:
    """A coordinator, and what it decided of each transaction."""

    coordinator: Coordinator = field(default_factory=Coordinator)
    decided: dict[int, bool] = field(default_factory=dict)

    def look(self) -> None:
        for markers in self.coordinator.sent:
            for partition in markers.partitions:
                was = self.decided.setdefault(partition.partition, markers.commit)
                assert was == markers.commit, "decided twice"

    def take_over(self) -> None:
        """Somebody else comes, and goes: whoever had the transactional id is fenced."""
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=TIMEOUT_MS)
        reply = None
        while reply is None or reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self.coordinator.write_markers()
            reply = self.coordinator.ask(request, version=6)
            assert isinstance(reply, InitProducerIdResponse)
            self.look()


@dataclass
class Producer:
    """The shell's part, with a network that loses what it is told to lose."""

    truth: Truth
    generation: Generation
    fates: Callable[[], str]
    numbers: Callable[[], int]
    state: ProducerTransaction = field(
        default_factory=lambda: ProducerTransaction(transactional_id="t")
    )
    number: int = -1  # of the transaction that it is in

    def step(self, wish: Wish, *, keep: bool) -> None:
        if refusal(self.state, wish) is not None:
            return
        match wish:
            case Wish.BEGIN:
                self.begin(keep=keep)
            case Wish.WRITE:
                self.write()
            case Wish.PREPARE:
                self.state = prepared(closing(self.state))
            case Wish.COMMIT:
                if self.state.stage in (Stage.OPEN, Stage.CLOSING):
                    self.state = closing(self.state)
                self.end(commit=True)
            case Wish.ABORT:
                self.end(commit=False)
        self.state.check()

    def advance(self) -> None:
        """What a program does that only wants to get on."""
        match self.state.stage:
            case Stage.NEW | Stage.READY:
                self.step(Wish.BEGIN, keep=False)
            case Stage.OPEN if not self.state.touched:
                self.step(Wish.WRITE, keep=False)
            case Stage.OPEN | Stage.CLOSING | Stage.COMMITTING | Stage.PREPARED:
                self.step(Wish.COMMIT, keep=False)
            case _:
                self.step(Wish.ABORT, keep=False)

    def begin(self, *, keep: bool) -> None:
        if self.state.stage is Stage.NEW:
            held = self.state.identity
            request = InitProducerIdRequest(
                transactional_id="t",
                transaction_timeout_ms=TIMEOUT_MS,
                producer_id=-1 if held is None else held.producer_id,
                producer_epoch=-1 if held is None else held.epoch,
                keep_prepared_txn=keep and held is None,
            )
            answer, reply = self.ask(
                Asked.IDENTITY, lambda: self.truth.coordinator.ask(request, version=6)
            )
            if answer.verdict is Verdict.DONE:
                assert isinstance(reply, InitProducerIdResponse)
                gained = identity(reply.producer_id, reply.producer_epoch)
                kept = identity(reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch)
                ongoing = kept if kept.producer_id >= 0 else None
                answer = Answer(verdict=answer.verdict, identity=gained, ongoing=ongoing)
                if ongoing is not None:
                    [left] = self.truth.coordinator.transaction().partitions
                    self.number = left.partition
            self.state = identified(self.state, answer, self.generation)
        if self.state.stage is Stage.READY:
            self.state = begun(self.state, self.generation)
            self.number = self.numbers()

    def write(self) -> None:
        self.state = touched(self.state)
        request = Enlist(
            transactional_id="t",
            producer=self.identity,
            partitions=(TopicPartition("t", self.number),),
            client_version=2 if self.generation is Generation.TWO else 0,
        )
        version = 3 if self.generation is Generation.ONE else 5
        answer, _ = self.ask(
            Asked.PARTITIONS, lambda: self.truth.coordinator.ask(request, version=version)
        )
        if self.generation is Generation.TWO and answer.verdict is not Verdict.DONE:
            # There it is a write that adds, and a write that failed, whatever the reason, is lost.
            assert answer.error is not None
            self.state = harmed(self.state, answer.error)
        else:
            self.state = enlisted(self.state, answer)

    def end(self, *, commit: bool) -> None:
        self.state = ending(self.state, commit=commit)
        if self.state.stage is Stage.READY:
            return
        request = EndTxnRequest(
            transactional_id="t",
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=commit,
        )
        version = 4 if self.generation is Generation.ONE else 5
        asked = Asked.COMMIT if commit else Asked.ABORT
        answer, reply = self.ask(
            asked, lambda: self.truth.coordinator.ask(request, version=version)
        )
        if answer.verdict is Verdict.DONE:
            assert isinstance(reply, EndTxnResponse)
            gained = identity(reply.producer_id, reply.producer_epoch)
            new = gained if gained.producer_id >= 0 else None
            answer = Answer(verdict=answer.verdict, identity=new)
        self.state = ended(self.state, answer)
        self.check_told(commit=commit)

    def check_told(self, *, commit: bool) -> None:
        """What it says to its user is what was decided."""
        self.truth.look()
        decided = self.truth.decided.get(self.number)
        match self.state.stage:
            case Stage.READY | Stage.NEW:
                assert decided is commit or (decided is None and not commit)
            case Stage.ABORT_ONLY:
                assert decided is not True
            case Stage.OVER:
                sure = not (isinstance(self.state.error, Fenced) and self.state.error.in_doubt)
                assert not (commit and sure and decided is True)

    def ask(self, asked: Asked, send: Callable[[], object]) -> tuple[Answer, object]:
        """As often as the network's fate wants: `answered` ends it unless the answer is no verdict;
        `time` says that time was up.
        """
        asking = Asking(asked=asked)
        while True:
            fate = self.fates()
            code: ErrorCode | None = None
            reply: object = None
            if fate == "taken over":
                self.truth.take_over()
            if fate in ("answered", "reply lost"):
                reply = send()
                self.truth.look()
                code = code_of(reply) if fate == "answered" else None
            found = asking.heard(code)
            if found not in NOT_YET or fate == "time":
                error = ConnectionLost("cut") if code is None else Refused(code, "t")
                why = None if found is Verdict.DONE else error
                answer = Answer(verdict=found, error=why, code=code, in_doubt=asking.in_doubt)
                return answer, reply
            if fate == "answered":
                self.truth.coordinator.write_markers()

    @property
    def identity(self) -> Identity:
        assert self.state.identity is not None
        return self.state.identity


def code_of(reply: object) -> ErrorCode:
    assert isinstance(reply, InitProducerIdResponse | EndTxnResponse | Enlisted)
    return reply.error if isinstance(reply, Enlisted) else ErrorCode(reply.error_code)


WORLD_STEPS = ("markers", "fail over", "time passes", "new producer")
STEPS = (*Wish, *WORLD_STEPS, *["advance"] * 9)
FATES = ("answered", "answered", "answered", "request lost", "reply lost", "time")


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_what_a_producer_was_told_is_what_the_coordinator_decided(data: st.DataObject) -> None:
    truth = Truth()
    count = iter(range(10_000))
    fates_drawn = st.lists(st.sampled_from((*FATES, "taken over")), max_size=60)
    left = iter(data.draw(fates_drawn))

    def fates() -> str:
        return next(left, "answered")

    def producer() -> Producer:
        generation = data.draw(st.sampled_from(Generation))
        return Producer(truth, generation, fates, lambda: next(count))

    producers = [producer()]
    for step in data.draw(st.lists(st.sampled_from(STEPS), max_size=50)):
        truth.look()
        match step:
            case "markers":
                truth.coordinator.write_markers()
            case "fail over":
                truth.coordinator.fail_over()
            case "time passes":
                truth.coordinator.pass_time(TIMEOUT_MS // 2)
            case "new producer":
                producers = [*producers[-1:], producer()]
            case "advance":
                producers[-1].advance()
            case Wish():
                keep = data.draw(st.booleans())
                data.draw(st.sampled_from(producers)).step(step, keep=keep)
        truth.look()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(Generation), st.lists(st.sampled_from(FATES), max_size=40))
def test_alone_a_producer_gets_every_transaction_committed_sooner_or_later(
    generation: Generation, fates: list[str]
) -> None:
    truth = Truth()
    count = iter(range(10_000))
    left = iter(fates)
    one = Producer(truth, generation, lambda: next(left, "answered"), lambda: next(count))
    committed: list[int] = []
    for _ in range(80):
        before, number = one.state.stage, one.number
        one.advance()
        if one.state.stage is Stage.READY and before in (Stage.OPEN, Stage.COMMITTING):
            committed.append(number)
        assert one.state.stage is not Stage.OVER, one.state.error
        truth.coordinator.write_markers()
    truth.look()
    assert len(committed) > 5
    assert [number for number, commit in truth.decided.items() if commit] == committed
