"""A producer that retries in every way it may is in the log once and in order."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.log.producer_state import ProducerStates
from penstock.model.error import ErrorCode
from penstock.model.offset import NO_OFFSET, LeaderEpoch, Offset
from penstock.model.sequence import SEQUENCE_MAX
from penstock.replication.leader import AppendPlan, Duplicate, Refusal, plan_append
from rig.produced import produced_view


class Oracle:
    """The rules told in the simplest way: a list of what was taken, per producer and epoch."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int, int, int, int]] = []  # id, epoch, first, count, offset
        self.end_offset = 0

    def expect(self, producer_id: int, epoch: int, first: int, count: int) -> str | int:
        own = [entry for entry in self.taken if entry[0] == producer_id]
        latest_epoch = own[-1][1] if own else None
        if latest_epoch is not None and epoch < latest_epoch:
            return "fenced"
        current = [entry for entry in own if entry[1] == epoch]
        for _, _, known_first, known_count, offset in current[-5:]:
            if (known_first, known_count) == (first, count):
                return offset
        if current:
            next_sequence = (current[-1][2] + current[-1][3]) % (SEQUENCE_MAX + 1)
        elif own:
            next_sequence = 0
        else:
            next_sequence = first
        if first != next_sequence:
            sent = {(first + index) % (SEQUENCE_MAX + 1) for index in range(count)}
            return "known" if sent <= _sequences(_unbroken(current)[:-5]) else "out of order"
        self.taken.append((producer_id, epoch, first, count, self.end_offset))
        self.end_offset += count
        return "taken"


Taken = list[tuple[int, int, int, int, int]]


def _unbroken(taken: Taken) -> Taken:
    """Those at the end that follow each other without a gap."""
    begin = 0
    for at in range(1, len(taken)):
        if taken[at][2] != (taken[at - 1][2] + taken[at - 1][3]) % (SEQUENCE_MAX + 1):
            begin = at
    return taken[begin:]


def _sequences(taken: Taken) -> set[int]:
    return {
        (first + index) % (SEQUENCE_MAX + 1)
        for _, _, first, count, _ in taken
        for index in range(count)
    }


sends = st.tuples(
    st.sampled_from([1, 2]),  # producer
    st.integers(0, 2),  # epoch
    st.one_of(st.integers(0, 12), st.integers(SEQUENCE_MAX - 3, SEQUENCE_MAX)),
    st.integers(1, 3),  # records
)
steps = st.lists(
    st.one_of(
        sends,
        st.tuples(st.just("next"), st.sampled_from([1, 2]), st.integers(1, 3)),
        st.tuples(st.just("retry"), st.integers(1, 8)),
        # As the log of a leader that had forgotten the producer is copied.
        st.tuples(st.just("gap"), st.sampled_from([1, 2]), st.integers(1, 3)),
    ),
    max_size=60,
)


@given(steps)
def test_leader_agrees_with_the_oracle(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    oracle = Oracle()
    producers = ProducerStates(expiry_ms=1)
    end_offset = Offset(0)
    for step in steps:
        wanted = _resolve(step, oracle)
        if wanted is None:
            continue
        producer_id, epoch, first, count = wanted
        if step[0] == "gap":
            copied = produced_view(count, producer_id=producer_id, epoch=epoch, sequence=first)
            copied.assign(base_offset=end_offset, leader_epoch=LeaderEpoch(0))
            producers.apply(copied)
            oracle.taken.append((*wanted, end_offset))
            oracle.end_offset = end_offset = copied.next_offset
            continue
        batch = produced_view(count, producer_id=producer_id, epoch=epoch, sequence=first)
        plan = plan_append(
            batch,
            end_offset=end_offset,
            leader_epoch=LeaderEpoch(0),
            producers=producers.by_id,
        )
        match oracle.expect(*wanted):
            case "taken":
                assert isinstance(plan, AppendPlan)
                batch.assign(base_offset=plan.base_offset, leader_epoch=plan.leader_epoch)
                producers.apply(batch)
                end_offset = batch.next_offset
            case "fenced":
                assert isinstance(plan, Refusal)
                assert plan.code == ErrorCode.INVALID_PRODUCER_EPOCH
            case "out of order":
                assert isinstance(plan, Refusal)
                assert plan.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            case "known":
                assert isinstance(plan, Duplicate)
                assert plan.base_offset == NO_OFFSET
                assert plan.last_offset < end_offset
            case offset:
                assert isinstance(plan, Duplicate)
                assert plan.base_offset == offset
                assert plan.last_offset == plan.base_offset + count - 1
        producers.check()
        assert end_offset == oracle.end_offset


def _resolve(step: tuple, oracle: Oracle) -> tuple[int, int, int, int] | None:  # type: ignore[type-arg]
    """What a step sends: as it is, the next batch of a producer, or one of its last ones again."""
    if step[0] == "retry":
        return oracle.taken[-step[1]][:4] if len(oracle.taken) >= step[1] else None
    if step[0] in ("next", "gap"):
        own = [entry for entry in oracle.taken if entry[0] == step[1]]
        if not own:
            return None
        left_out = 2 if step[0] == "gap" else 0
        first = (own[-1][2] + own[-1][3] + left_out) % (SEQUENCE_MAX + 1)
        return (step[1], own[-1][1], first, step[2])
    return step
