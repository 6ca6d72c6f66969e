"""How many requests a node has answered, how long they took, and which errors it replied.

    received             started            handled              ready                    sent
       |  queue            |  local            |  remote           |  send                 |
       |  others of the    |  until the answer |  acks, data, a    |  replies before it,   |
       |  same chunk       |  or a wait        |  coordinator, ... |  and the network      |

The names are Apache Kafka's. A reply that needs no wait has no remote part; one that has to wait
counts all that it does after that as remote. Requests are counted one by one. The times of those
that must be cheap are taken of one in 64, of all other APIs each time: with thousands of requests a
second that is exact enough, and costs most of them a look at a counter. A request that is traced is
timed too, and counted only if it is one of those. One object belongs to all listeners of a node;
without metrics, alerts and traces there is none.

Invariant: the parts of a request add up to its total, to the microsecond.
"""

from typing import TYPE_CHECKING, Final

from penstock.broker.request.response_errors import error_codes
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.definition import Message

if TYPE_CHECKING:  # nothing of it is loaded by a node that exports no traces
    from penstock.broker.request.request_tracing import RequestTrace, RequestTracing

API_KEYS: Final = 256  # the second byte of a request is its key
SAMPLED: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
SAMPLED_EVERY: Final = 64  # a power of two
QUEUE: Final = 0
LOCAL: Final = 1
REMOTE: Final = 2
SEND: Final = 3
TOTAL: Final = 4
PARTS: Final = 5
BUCKETS: Final = 32  # by `bit_length` of microseconds; the last is for all above half an hour


class ApiTimes:
    """The times of one API: a histogram of each part."""

    __slots__ = ("counts", "sums_us")

    def __init__(self) -> None:
        # Of each part in a row: how many requests had microseconds of so many bits.
        self.counts: list[int] = [0] * (PARTS * BUCKETS)
        self.sums_us: list[int] = [0] * PARTS

    def note(self, part: int, us: int) -> None:
        bits = us.bit_length()
        self.counts[part * BUCKETS + (bits if bits < BUCKETS else BUCKETS - 1)] += 1
        self.sums_us[part] += us


class TimedRequest:
    """One request whose times are taken; see the module for the moments."""

    __slots__ = (
        "api_key",
        "handled_us",
        "is_counted",
        "ready_us",
        "received_us",
        "started_us",
        "trace",
    )

    def __init__(
        self, api_key: int, *, received_us: int, started_us: int, is_counted: bool = True
    ) -> None:
        self.api_key = api_key
        self.received_us = received_us
        self.started_us = started_us
        self.handled_us = started_us
        self.ready_us = started_us
        self.is_counted = is_counted
        self.trace: RequestTrace | None = None


class ApiCount:
    """How many requests of one API were answered.

    An object for each: compiled code raises its attribute without making a Python integer, as an
    entry of a list would need one.
    """

    __slots__ = ("answered", "untimed_bits")

    def __init__(self, untimed_bits: int) -> None:
        self.answered = 0
        self.untimed_bits = untimed_bits  # timed are those before which `answered` has none of them


class RequestStats:
    def __init__(self) -> None:
        self.counts = [  # by API key
            ApiCount(SAMPLED_EVERY - 1 if key in SAMPLED else 0) for key in range(API_KEYS)
        ]
        self.times: dict[int, ApiTimes] = {}  # by API key
        self.errors: dict[tuple[int, int], int] = {}  # by API key and code
        self.tracing: RequestTracing | None = None

    def note_sent(self, timed: TimedRequest, sent_us: int) -> None:
        if timed.trace is not None:
            timed.trace.sent(timed, sent_us)
        if not timed.is_counted:
            return
        times = self.times.get(timed.api_key)
        if times is None:
            times = self.times[timed.api_key] = ApiTimes()
        times.note(QUEUE, timed.started_us - timed.received_us)
        times.note(LOCAL, timed.handled_us - timed.started_us)
        times.note(REMOTE, timed.ready_us - timed.handled_us)
        times.note(SEND, sent_us - timed.ready_us)
        times.note(TOTAL, sent_us - timed.received_us)

    def note_errors(self, api_key: int, response: Message) -> None:
        """As in Apache Kafka, each error of a topic or a partition counts."""
        for code in error_codes(response):
            self.note_error(api_key, code)

    def note_error(self, api_key: int, code: int) -> None:
        if code != ErrorCode.NONE:
            place = (api_key, code)
            self.errors[place] = self.errors.get(place, 0) + 1
