"""What connections that never log in do to a client that has, and to the memory of the node.

They connect to the listener SSL, where the client is too. A node closes those that take too long;
then others take their place, so that there are always as many. Each run is measured for a time and
not for a number of requests: twice as long as a node waits for a stranger, so that it also closes
all of them and meets as many again, however fast the client is.
"""

import statistics
import time
from dataclasses import asdict

from brokers import LoneBroker, forget_topic, resident_mib
from loading import Measured, Topic, beside_program
from rich.table import Table
from security_run import Run, new_topic, not_a_topic

from penstock.model.limit import TLS_HANDSHAKE_MS_MAX

WAYS = {
    "idle": "connected, and silent",
    "half": "half-way through the handshake",
    "junk": "junk, once a second",
}
RUN_SECONDS = 2 * TLS_HANDSHAKE_MS_MAX / 1000
WARM_UP_SECONDS = 3.0
QUICK_SECONDS = 0.3
QUICK_COUNT = 30
SETTLE_SECONDS = 1.0
AIM_PERCENT = 10


def measure_strangers(run: Run) -> None:
    count = QUICK_COUNT if run.quick else run.arguments.count
    brokers = run.brokers()
    table = Table(
        title=f"a client with a certificate beside {count:,} strangers; medians of "
        f"{1 if run.quick else run.arguments.rounds}; the aim is {AIM_PERCENT} %"
    )
    for heading in ("broker", "strangers"):
        table.add_column(heading)
    for heading in ("alone", "beside them", "slower by", "p99", "beside them", "RSS", "at most"):
        table.add_column(heading, justify="right")
    try:
        for broker in brokers:
            broker.start()
        for broker in brokers:
            for way, shown in WAYS.items():
                topic = new_topic(broker, f"beside-{way}")
                measured_client(
                    run, broker, topic, way="warm-up", beside=False, seconds=WARM_UP_SECONDS
                )
                table.add_row(broker.name, shown, *slowed(run, broker, topic, way, count))
                forget_topic(broker, topic.name)
    finally:
        for broker in brokers:
            broker.stop()
    run.console.print(table)


def slowed(run: Run, broker: LoneBroker, topic: Topic, way: str, count: int) -> list[str]:
    rounds = 1 if run.quick else run.arguments.rounds
    before_mib = during_mib = 0.0
    alone: list[Measured] = []
    beside: list[Measured] = []
    for number in range(rounds):
        if number % 2 == 0:
            alone.append(measured_client(run, broker, topic, way=way, beside=False))
        before_mib = before_mib or resident_mib(broker.pid)
        options = {
            **broker.options_at("SSL"),
            **not_a_topic(),
            "kind": "strangers",
            "way": way,
            "connections": count,
        }
        with beside_program(run.program, broker, options) as strangers:
            strangers.await_up()
            beside.append(measured_client(run, broker, topic, way=way, beside=True))
            during_mib = max(during_mib, resident_mib(broker.pid))
            run.keep(broker=broker.name, way=way, strangers=asdict(strangers.end()))
        time.sleep(SETTLE_SECONDS)
        if number % 2:
            alone.append(measured_client(run, broker, topic, way=way, beside=False))
    run.keep(broker=broker.name, way=way, before_mib=before_mib, during_mib=during_mib)
    rates = [statistics.median(one.requests / one.seconds for one in of) for of in (alone, beside)]
    worst = [statistics.median(one.p99_ms for one in of) for of in (alone, beside)]
    slower = statistics.median(
        1 - (one.requests / one.seconds) / (other.requests / other.seconds)
        for one, other in zip(beside, alone, strict=True)
    )
    return [
        *(f"{rate:,.0f}/s" for rate in rates),
        f"{slower:+.1%}",
        *(f"{one:.2f} ms" for one in worst),
        f"{before_mib:,.0f} MiB",
        f"{during_mib:,.0f} MiB",
    ]


def measured_client(
    run: Run,
    broker: LoneBroker,
    topic: Topic,
    *,
    way: str,
    beside: bool,
    seconds: float = RUN_SECONDS,
) -> Measured:
    if run.quick:
        seconds = QUICK_SECONDS
    options = {
        **run.small_options(topic),
        **broker.options_at("SSL"),
        "kind": "produce",
        "connections": 2,
        "in-flight": 4,
        "lasting": f"{seconds}s",
    }
    measured = run.load(broker, options, way=way, beside=beside)
    assert measured.seconds >= seconds, "no run may end before its time"
    return measured
