"""How many log-ins a second, and what refused ones do to a client that is logged in.

Each log-in is a connection of its own: connect, TLS where the listener has it, handshake, token,
and close. The load program hashes the password once for all of them, so that the
client's part of SCRAM is not what is measured.
"""

import statistics
from dataclasses import asdict

from brokers import LoneBroker
from loading import Measured, Topic, beside_program
from report import ratio
from rich.table import Table
from secured import MECHANISMS, add_user, login_options
from security_run import Run, new_topic, not_a_topic

LOGINS = 4000
AT_ONCE = 8
QUICK_LOGINS = 40
ROUND_TRIPS_A_SECOND = 1000
BEFORE_SECONDS = 10
MINUTE_SECONDS = 60
QUICK_SECONDS = 1
FAILING_MECHANISM = "SCRAM-SHA-512"
WAYS = [("SASL_PLAINTEXT", mechanism) for mechanism in MECHANISMS]
WAYS += [("SASL_SSL", "SCRAM-SHA-512")]


def measure_logins(run: Run) -> None:
    brokers = run.brokers()
    try:
        for broker in brokers:
            broker.start()
            add_user(broker)
        if run.arguments.failed is None:
            measure_rates(run, brokers)
        else:
            measure_failures(run, brokers)
    finally:
        for broker in brokers:
            broker.stop()


def measure_rates(run: Run, brokers: list[LoneBroker]) -> None:
    found: dict[tuple[str, str, str], list[Measured]] = {}
    rounds = 1 if run.quick else run.arguments.rounds
    for number in range(rounds + 1):  # the first one warms up
        in_turn = brokers if number % 2 else brokers[::-1]
        for listener, mechanism in WAYS:
            for broker in in_turn:
                options = {
                    **broker.options_at(listener),
                    **login_options(mechanism),
                    **not_a_topic(),
                    "kind": "logins",
                    "requests": QUICK_LOGINS if run.quick else LOGINS,
                    "connections": AT_ONCE,
                }
                told = {"round": number, "listener": listener, "mechanism": mechanism}
                measured = run.load(broker, options, **told)
                if number:
                    key = (listener, mechanism, broker.name)
                    found.setdefault(key, []).append(measured)
    names = [broker.name for broker in brokers]
    table = Table(title=f"log-ins, {AT_ONCE} at a time; CPU: least of {rounds} rounds (median)")
    table.add_column("listener and mechanism", no_wrap=True)
    headings = [*(f"{name} CPU" for name in names), "ratio", *(f"{name} rate" for name in names)]
    for heading in [*headings, *(f"{name} p50 / p99" for name in names)]:
        table.add_column(heading, justify="right")
    for listener, mechanism in WAYS:
        runs = [found[listener, mechanism, name] for name in names]
        costs = [[one.cpu_seconds / one.requests * 1e6 for one in of_one] for of_one in runs]
        row = [f"{listener} {mechanism}"]
        row += [f"{min(one):,.0f} ({statistics.median(one):,.0f}) µs" for one in costs]
        row.append(ratio([min(one) for one in costs]))
        row += [f"{max(one.requests / one.seconds for one in of_one):,.0f}/s" for of_one in runs]
        row += [
            f"{min(one.p50_ms for one in of_one):.2f} / {min(one.p99_ms for one in of_one):.2f} ms"
            for of_one in runs
        ]
        table.add_row(*row)
    run.console.print(table)


def measure_failures(run: Run, brokers: list[LoneBroker]) -> None:
    failed, listener = run.arguments.failed, run.arguments.listener
    seconds = QUICK_SECONDS if run.quick else MINUTE_SECONDS
    table = Table(
        title=f"{failed:,} failed log-ins in {seconds} s at {listener}, "
        f"and {ROUND_TRIPS_A_SECOND:,} round trips a second of one who is logged in"
    )
    for heading in ("broker", "", "round trips", "p50", "p99", "worst", "CPU", "refused"):
        table.add_column(heading, justify="left" if heading in {"broker", ""} else "right")
    for broker in brokers:
        topic = new_topic(broker, "round-trips")
        before_seconds = QUICK_SECONDS if run.quick else BEFORE_SECONDS
        round_trips(run, broker, topic, before_seconds, when="warm-up")
        before = round_trips(run, broker, topic, before_seconds, when="before")
        options = {
            **broker.options_at(listener),
            **login_options(FAILING_MECHANISM, password="not-the-password"),
            **not_a_topic(),
            "kind": "failed-logins",
            "requests": failed,
            "rate": max(failed // seconds, 1),
        }
        with beside_program(run.program, broker, options) as failing:
            during = round_trips(run, broker, topic, seconds, when="during")
            refused = failing.end()
        run.keep(broker=broker.name, when="refused", measured=asdict(refused))
        table.add_row(broker.name, "before", *shown(before), "")
        refusals = f"{refused.requests:,}, p99 {refused.p99_ms:.0f} ms"
        table.add_row("", "during", *shown(during), refusals)
    run.console.print(table)


def round_trips(run: Run, broker: LoneBroker, topic: Topic, seconds: int, *, when: str) -> Measured:
    options = {
        **run.small_options(topic),
        **broker.options_at("SASL_PLAINTEXT"),
        "kind": "round-trips",
        "rate": ROUND_TRIPS_A_SECOND,
        "requests": ROUND_TRIPS_A_SECOND * seconds,
    }
    return run.load(broker, options, when=when)


def shown(measured: Measured) -> list[str]:
    times = (measured.p50_ms, measured.p99_ms, measured.max_ms)
    cores = measured.cpu_seconds / measured.seconds
    return [f"{measured.requests:,}", *(f"{one:.2f} ms" for one in times), f"{cores:.2f} cores"]
