"""Settings of nodes in a cluster: those that work, and those that contradict each other."""

# The three kinds of node, as three machines would have them.
BOTH = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
}
CONTROLLER = {
    **BOTH,
    "process.roles": "controller",
    "node.id": "2",
    "listeners": "CONTROLLER://:9093",
}
BROKER = {
    **BOTH,
    "process.roles": "broker",
    "node.id": "7",
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://d:19092",
}


def without(given: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in given.items() if name not in names}


ACCEPTED: list[dict[str, str]] = [
    BOTH,
    CONTROLLER,
    BROKER,
    {**BOTH, "controller.quorum.voters": "1@a:9093"},
    {
        **without(BOTH, "controller.quorum.voters"),
        "controller.quorum.bootstrap.servers": "a:9093,[::1]:9094",
    },
    {**CONTROLLER, "advertised.listeners": "CONTROLLER://b:19093"},
    {**BOTH, "advertised.listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093"},
    {
        **BOTH,
        "listeners": "IN://a:9092,OUT://a:9094,CONTROLLER://a:9093",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "IN",
    },
]

# The settings, and what the refusal says.
REFUSED: list[tuple[dict[str, str], str]] = [
    (without(BOTH, "node.id"), r"Missing configuration node\.id"),
    (without(BOTH, "controller.listener.names"), r"Missing .* controller\.listener\.names"),
    (
        without(BOTH, "controller.quorum.voters"),
        r"Missing configuration controller\.quorum\.voters: .* or "
        r"controller\.quorum\.bootstrap\.servers",
    ),
    (without(BOTH, "process.roles"), r"Missing configuration process\.roles: .* other nodes"),
    (
        {"controller.quorum.bootstrap.servers": "a:1"},
        r"Missing configuration process\.roles: controller\.quorum\.bootstrap",
    ),
    ({**BOTH, "node.id": "4"}, "Node 4 has the role controller and must be .* add 4@HOST:PORT"),
    ({**BROKER, "node.id": "3"}, "Node 3 must not be among the voters"),
    (
        {**BOTH, "listeners": "PLAINTEXT://a:9092"},
        "CONTROLLER of controller.listener.names is missing.* add CONTROLLER://HOST:PORT",
    ),
    ({**BOTH, "controller.listener.names": "CONTROLLER,C2"}, "C2 of controller.listener.names"),
    (
        {**BROKER, "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
        "CONTROLLER is a listener of controllers",
    ),
    (
        {
            **BROKER,
            "advertised.listeners": "PLAINTEXT://d:9092,CONTROLLER://d:9093",
        },
        "CONTROLLER must be one of listeners",
    ),
    (
        {**CONTROLLER, "listeners": "CONTROLLER://:9093,PLAINTEXT://:9092"},
        "PLAINTEXT is no listener of controllers",
    ),
    (
        {**BOTH, "listeners": "CONTROLLER://:9093"},
        "A broker needs a listener that controller.listener.names leaves out",
    ),
    (
        {**BOTH, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
        "CONTROLLER of .* is missing: add CONTROLLER:PLAINTEXT",
    ),
    (
        {**BROKER, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
        "CONTROLLER of .* is missing: add CONTROLLER:PLAINTEXT",
    ),
    (
        {**BOTH, "listeners": "PLAINTEXT://a:9092,SSL://a:9094,CONTROLLER://a:9093"},
        r"Missing configuration listener\.security\.protocol\.map: CONTROLLER",
    ),
    (
        {**BOTH, "inter.broker.listener.name": "CONTROLLER"},
        "a listener of brokers that is advertised; these are PLAINTEXT",
    ),
    (
        {
            **BOTH,
            "listeners": "PLAINTEXT://a:9092,IN://a:9094,CONTROLLER://a:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://a:9092",
            "inter.broker.listener.name": "IN",
        },
        "a listener of brokers that is advertised; these are PLAINTEXT",
    ),
    (
        {
            **BOTH,
            "listeners": "IN://a:9094,CONTROLLER://a:9093",
            "listener.security.protocol.map": "IN:PLAINTEXT,CONTROLLER:PLAINTEXT",
        },
        r"Missing configuration inter\.broker\.listener\.name: .* over PLAINTEXT.*: IN",
    ),
    (
        {
            **BOTH,
            "inter.broker.listener.name": "PLAINTEXT",
            "security.inter.broker.protocol": "PLAINTEXT",
        },
        "Only one of it and inter.broker.listener.name",
    ),
    (
        {**BROKER, "broker.heartbeat.interval.ms": "9000"},
        "must be less than broker.session.timeout.ms",
    ),
    (
        {**BROKER, "broker.session.timeout.ms": "2000"},
        r"2000 for configuration broker\.session\.timeout\.ms: Heartbeats every 2000 ms",
    ),
]

# Of these, the ones that Apache Kafka accepts: with such times a broker would be fenced again and
# again, and a node that is no controller would be advertised as one.
ACCEPTED_BY_KAFKA = (
    "must be less than broker.session.timeout.ms",
    "Heartbeats every 2000 ms",
    "CONTROLLER must be one of listeners",
)
