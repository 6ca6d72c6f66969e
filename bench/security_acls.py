"""What authorisation adds to a small request, where there are 10,000 ACLs.

The authorizer of one node of ours is switched on and off (`switched_node.py`), and the node is
asked for the same with and without, as the same user, who has logged in. One run of each makes a
pair; which is first changes from pair to pair. The figure is the median of the differences in CPU
time of the node for each request, in hundredths of what it takes without, with the interval of the
sign test. That the switch does what it says is tried first: a topic that the user has no right to
is written while it is off, and refused while it is on.
"""

from dataclasses import asdict

from brokers import Switched
from cases import FETCH_BY_NAME, PRODUCE_BY_NAME
from loading import LoadFailed, Topic, run_program
from pairs import median_interval
from rich.table import Table
from secured import AUTHORIZER, USER, add_acls, protection_in
from security_run import Run, new_topic

from penstock.model.error import ErrorCode
from penstock.security.acl.entry import Acl, ResourcePattern
from penstock.security.acl.words import AclOperation, PatternType, Permission, ResourceType

REQUESTS = 20_000
QUICK_REQUESTS = 200
QUICK_PAIRS = 2
QUICK_ENTRIES = 200
AIM_PERCENT = 3
TOPIC = "orders-eu"
FORBIDDEN_TOPIC = "payments"
REFUSED = f"error {int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}:"
SWITCHED = {"on": True, "off": False}
KINDS = {"produce": "produce", "fetch": "small-fetch"}
# Others on the same topic, on prefixes of its name, on prefixes beside it, and on topics elsewhere.
KINDS_OF_ENTRIES = 5


def entries(count: int) -> list[Acl]:
    """So many of them; the two that let the user write and read come last."""
    return [entry(number) for number in range(count - 2)] + [
        allowed(USER, operation, TOPIC, PatternType.LITERAL)
        for operation in (AclOperation.WRITE, AclOperation.READ)
    ]


def entry(number: int) -> Acl:
    someone = f"user-{number}"
    operation = AclOperation.WRITE if number % 2 else AclOperation.READ
    match number % KINDS_OF_ENTRIES:
        case 0:
            return allowed(someone, operation, TOPIC, PatternType.LITERAL)
        case 1:
            prefix = TOPIC[: 1 + number % len(TOPIC)]
            return allowed(someone, operation, prefix, PatternType.PREFIXED)
        case 2:
            return allowed(someone, operation, f"orders-e{number}-", PatternType.PREFIXED)
        case _:
            return allowed(someone, operation, f"topic-{number // 10}", PatternType.LITERAL)


def allowed(who: str, operation: AclOperation, name: str, pattern_type: PatternType) -> Acl:
    return Acl(
        pattern=ResourcePattern(ResourceType.TOPIC, name, pattern_type),
        principal=f"User:{who}",
        host="*",
        operation=operation,
        permission=Permission.ALLOW,
    )


def measure_acls(run: Run) -> None:
    count = QUICK_ENTRIES if run.quick else run.arguments.entries
    pairs = QUICK_PAIRS if run.quick else run.arguments.pairs
    protection = protection_in(run.folder / "certificates")
    given = dict(pair.split("=", 1) for pair in run.arguments.set)
    node = Switched(
        run.folder / "penstock",
        part="authorizer",
        settings={**AUTHORIZER, **given},
        protection=protection,
    )
    table = Table(title=f"{count:,} ACLs, {pairs} pairs; the aim is {AIM_PERCENT} %")
    for heading in ("request", "off", "on", "difference", "interval"):
        table.add_column(heading, justify="left" if heading == "request" else "right")
    try:
        node.start()
        topic = new_topic(node, TOPIC)
        add_acls(node, entries(count))
        try_switch(run, node, new_topic(node, FORBIDDEN_TOPIC))
        for request in KINDS:
            table.add_row(request, *compared(run, node, topic, request, pairs))
    finally:
        node.stop()
    run.console.print(table)


def try_switch(run: Run, node: Switched, forbidden: Topic) -> None:
    """SystemExit where rights are asked for while it is off, or not while it is on."""
    for on in (False, True):
        node.switch(on=on)
        try:
            run_program(run.program, node, {**options_of(run, node, forbidden), "requests": 1})
        except LoadFailed as refused:
            if not on or REFUSED not in str(refused):
                raise SystemExit(f"authorizer {'on' if on else 'off'}: {refused}") from refused
        else:
            if on:
                raise SystemExit("authorizer on: a topic was written without the right to it")


def compared(run: Run, node: Switched, topic: Topic, request: str, pairs: int) -> list[str]:
    costs: dict[str, list[float]] = {name: [] for name in SWITCHED}
    for number in range(pairs + 1):  # the first one warms up
        for name in sorted(SWITCHED, reverse=bool(number % 2)):
            options = {
                **options_of(run, node, topic),
                "kind": KINDS[request],
                "requests": QUICK_REQUESTS if run.quick else REQUESTS,
            }
            node.switch(on=SWITCHED[name])
            measured = run.load(node, options, pair=number, request=request, authorizer=name)
            if number:
                costs[name].append(measured.cpu_seconds / measured.requests * 1e6)
    differences = [(on / off - 1) * 100 for on, off in zip(costs["on"], costs["off"], strict=True)]
    found = median_interval(differences)
    run.keep(request=request, pairs=pairs, percent=asdict(found))
    medians = [median_interval(costs[name]).median for name in ("off", "on")]
    return [
        *(f"{one:.2f} µs" for one in medians),
        f"{found.median:+.1f} %",
        f"{found.low:+.1f} to {found.high:+.1f} % ({found.coverage:.0%})",
    ]


def options_of(run: Run, node: Switched, topic: Topic) -> dict[str, object]:
    return {
        **run.small_options(topic),
        **node.options_at("SASL_PLAINTEXT"),
        "produce-version": PRODUCE_BY_NAME,
        "fetch-version": FETCH_BY_NAME,
        "connections": 8,
        "in-flight": 4,
    }
