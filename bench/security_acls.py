"""What authorisation adds to a small request, where there are 10,000 ACLs.

Two nodes of ours run at the same time, one with an authorizer and one without, and both are asked
for the same as the same user, who has logged in. One run on each makes a pair; which is first
changes from pair to pair. The figure is the median of the differences in CPU time of the node for
each request, in hundredths of what it takes without, with the interval of the sign test.
"""

from dataclasses import asdict

from brokers import Penstock
from cases import FETCH_BY_NAME, PRODUCE_BY_NAME
from loading import Topic
from pairs import median_interval
from rich.table import Table
from secured import AUTHORIZER, USER, add_acls, protection_in
from security_run import Run, new_topic

from penstock.security.acl.entry import Acl, ResourcePattern
from penstock.security.acl.words import AclOperation, PatternType, Permission, ResourceType

REQUESTS = 20_000
QUICK_REQUESTS = 200
QUICK_PAIRS = 2
QUICK_ENTRIES = 200
AIM_PERCENT = 3
TOPIC = "orders-eu"
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
    nodes = {
        name: Penstock(
            run.folder / name, settings={**settings, **given}, protection=protection, name=name
        )
        for name, settings in (("on", AUTHORIZER), ("off", {}))
    }
    table = Table(title=f"{count:,} ACLs, {pairs} pairs; the aim is {AIM_PERCENT} %")
    for heading in ("request", "off", "on", "difference", "interval"):
        table.add_column(heading, justify="left" if heading == "request" else "right")
    try:
        topics = {}
        for name, node in nodes.items():
            node.start()
            topics[name] = new_topic(node, TOPIC)
        add_acls(nodes["on"], entries(count))
        for request in KINDS:
            table.add_row(request, *compared(run, nodes, topics, request, pairs))
    finally:
        for node in nodes.values():
            node.stop()
    run.console.print(table)


def compared(
    run: Run, nodes: dict[str, Penstock], topics: dict[str, Topic], request: str, pairs: int
) -> list[str]:
    costs: dict[str, list[float]] = {name: [] for name in nodes}
    for number in range(pairs + 1):  # the first one warms up
        for name in sorted(nodes, reverse=bool(number % 2)):
            options = {
                **run.small_options(topics[name]),
                **nodes[name].options_at("SASL_PLAINTEXT"),
                "kind": KINDS[request],
                "produce-version": PRODUCE_BY_NAME,
                "fetch-version": FETCH_BY_NAME,
                "connections": 8,
                "in-flight": 4,
                "requests": QUICK_REQUESTS if run.quick else REQUESTS,
            }
            measured = run.load(nodes[name], options, pair=number, request=request)
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
