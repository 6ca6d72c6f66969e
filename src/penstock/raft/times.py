"""How long a replica waits for what: Kafka's `controller.quorum.*` settings, and what follows."""

from collections.abc import Callable

from penstock.model.lazy_dataclass import dataclass

SHORT_WAIT_MS_MAX = 50  # of a voter that has just lost its leader, or has just started
GIVE_WAY_MS_MAX = 200  # that a voter leaves to another one that stands at the same time
BACKOFF_BASE_MS = 100
BACKOFF_DOUBLINGS_MAX = 10

# A random number from 0 up to, and without, the one given.
Draw = Callable[[int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 20
    fetch_wait_ms_max: int = 500

    @property
    def check_quorum_ms(self) -> int:
        """A leader that a majority has not fetched from for so long resigns."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def give_way_ms(self) -> int:
        """Enough for another to be elected, if it can be."""
        return min(GIVE_WAY_MS_MAX, self.election_timeout_ms)

    @property
    def begin_epoch_ms(self) -> int:
        """A leader reminds voters that have not fetched for so long."""
        return self.fetch_timeout_ms // 2


def election_wait_ms(times: Times, draw: Draw) -> int:
    """Before the next election of a voter that has no reason to hurry."""
    return times.election_timeout_ms + draw(max(1, times.election_timeout_ms))


def backoff_ms(times: Times, draw: Draw, *, attempts: int) -> int:
    """After a lost election: random, doubled with each attempt, so that candidates part."""
    doublings = min(BACKOFF_DOUBLINGS_MAX, max(0, attempts - 1))
    slots = 1 + draw(1 << doublings)
    return min(BACKOFF_BASE_MS * slots, times.election_backoff_max_ms)
