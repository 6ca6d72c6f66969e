"""Scenarios of classic groups that read like a log of what happens: a step, and who is told what.

    == Two members share the work
    a enters                    => a: waits
    3 s pass                    => a: generation 1, leads a
    a syncs, assigning a=0,1    => a: gets 0,1

After the arrow stands everything that is answered because of the step, to anybody, and nothing
else is: a step without an arrow answers nobody. What a client was told (its id, the generation, the
protocol) it uses in its next requests, unless the step says otherwise. Steps:

    settings NAME=VALUE ...     the broker's, before all other steps
    a joins, with range sticky, saying TOPICS, static NAME, type TYPE, session 10 s,
             rebalance 60 s, version 3      (what a client once said of itself, it goes on saying)
    a enters, ...               joins twice: for an id, and with it
    a syncs, assigning a=PART b=PART, generation 7, named PROTOCOL, of type TYPE, version 5
    a heartbeats, generation 7    a leaves, version 1    a b leave    instance NAME is removed
    a commits, generation 7     commits an offset
    a restarts                  forgets its id          5 s pass; 500 ms pass
    the coordinator fails over  the journal refuses; the journal recovers
    the group is Stable, generation 2, leader a, members a b, protocol range
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.groups.classic.group import ClassicGroup
from penstock.machine.held_replies import NotDone
from penstock.machine.host import AppendFailed
from penstock.model.error import ErrorCode
from penstock.wire.embedded import write_embedded
from penstock.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from rig.group_world import GroupWorld

GROUP = "orders"
MS = {"ms": 1, "s": 1000, "min": 60_000}
NOT_DONE = {
    NotDone.LEADERSHIP_LOST: ErrorCode.NOT_COORDINATOR,
    NotDone.APPEND_FAILED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    title: str
    lines: tuple[tuple[int, str], ...]  # with their numbers in the file


def scenarios_in(path: Path) -> Iterator[Scenario]:
    title, lines = "", list[tuple[int, str]]()
    for number, text in enumerate(path.read_text().splitlines(), start=1):
        line = text.partition("#")[0].strip()
        if line.startswith("=="):
            if title:
                yield Scenario(title=title, lines=tuple(lines))
            title, lines = line.strip("= "), []
        elif line:
            assert title, f"{path.name}:{number}: a step outside of a scenario"
            lines.append((number, line))
    yield Scenario(title=title, lines=tuple(lines))


@dataclass
class Client:
    """One consumer, as far as the coordinator can see it."""

    name: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    protocols: tuple[str, ...] = ("range",)
    saying: str = "topics"
    protocol_type: str = "consumer"
    protocol_name: str | None = None
    session_ms: int = 10_000
    rebalance_ms: int = 60_000


@dataclass
class Options:
    """What stands between commas after a step's verb: `version 3, static x`."""

    texts: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> "Options":
        parts = [part.strip() for part in re.split(r",\s+", text) if part.strip()]
        return Options({part.split()[0]: " ".join(part.split()[1:]) for part in parts})

    def take(self, name: str, default: str) -> str:
        return self.texts.pop(name, default)

    def done(self) -> None:
        assert not self.texts, f"unknown: {self.texts}"


class Run:
    """One scenario under way."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.clients: dict[str, Client] = {}
        self.owners: dict[int, list[str]] = {}  # ticket -> names
        self.told: set[int] = set()
        self.world = GroupWorld()

    def play(self) -> None:
        for number, line in self.scenario.lines:
            step, _, outcome = (part.strip() for part in line.partition("=>"))
            before = set(self.world.parked)
            waiting = self._do(step)
            expected = _outcomes(outcome)
            seen = self._news()
            for name in waiting:
                seen.setdefault(name, ["waits"])
            assert set(seen) == set(expected), f"line {number}: {line}\n  but: {seen}"
            for name, parts in expected.items():
                assert _agrees(parts, seen[name]), f"line {number}: {line}\n  but: {seen[name]}"
            assert set(self.world.parked) - before <= set(self.owners)

    def _do(self, step: str) -> list[str]:
        """Carries a step out; returns who waits for an answer because of it."""
        if step.startswith("settings "):
            pairs = (pair.split("=", 1) for pair in step.split()[1:])
            self.world = GroupWorld(dict(pairs))
        elif found := re.fullmatch(r"(\d+) (ms|s|min) passe?s?", step):
            self.world.pass_time(int(found[1]) * MS[found[2]])
        elif step == "the coordinator fails over":
            self.world.fail_over()
        elif step == "the journal refuses":
            self.world.journal.error = AppendFailed("no room")
        elif step == "the journal recovers":
            self.world.journal.error = None
        elif step.startswith("the group is "):
            self._assert_group(step.removeprefix("the group is "))
        elif found := re.fullmatch(r"instance (\S+) is removed", step):
            self._leave([MemberIdentity(group_instance_id=found[1])], ["admin"], version=5)
        elif found := re.fullmatch(r"((?:\w+ )+)leave", step):
            names = found[1].split()
            identities = [self._identity(self._client(name)) for name in names]
            self._leave(identities, names, version=5)
        else:
            name, verb, rest = re.fullmatch(r"(\w+) (\w+)(.*)", step).groups()  # type: ignore[union-attr]
            options = Options.of(rest)
            ticket = getattr(self, f"_{verb}")(self._client(name), options)
            options.done()
            return [name] if ticket in self.world.parked else []
        return []

    def _client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    def _joins(self, client: Client, options: Options) -> int:
        client.protocols = tuple(options.take("with", " ".join(client.protocols)).split())
        client.saying = options.take("saying", client.saying)
        client.instance_id = options.take("static", client.instance_id or "") or None
        client.protocol_type = options.take("type", client.protocol_type)
        client.session_ms = _ms(options.take("session", f"{client.session_ms} ms"))
        client.rebalance_ms = _ms(options.take("rebalance", f"{client.rebalance_ms} ms"))
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=client.session_ms,
            rebalance_timeout_ms=client.rebalance_ms,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type=client.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=subscription(client.saying))
                for name in client.protocols
            ],
        )
        return self._ask(client, request, int(options.take("version", "9")))

    def _enters(self, client: Client, options: Options) -> int:
        ticket = self._joins(client, options)
        assert self._news()[client.name] == ["MEMBER_ID_REQUIRED"]
        assert ticket not in self.world.parked
        return self._joins(client, options)

    def _syncs(self, client: Client, options: Options) -> int:
        version = int(options.take("version", "5"))
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=int(options.take("generation", str(client.generation))),
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type=options.take("of", f"type {client.protocol_type}").removeprefix("type "),
            protocol_name=options.take("named", client.protocol_name or "?"),
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self._client(name).member_id, assignment=part.encode()
                )
                for name, part in (
                    pair.split("=") for pair in options.take("assigning", "").split()
                )
            ],
        )
        if version < 5:
            request.protocol_type = request.protocol_name = None
        return self._ask(client, request, version)

    def _heartbeats(self, client: Client, options: Options) -> int:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=int(options.take("generation", str(client.generation))),
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )
        return self._ask(client, request, 4)

    def _leaves(self, client: Client, options: Options) -> int:
        version = int(options.take("version", "5"))
        if version >= 3:
            return self._leave([self._identity(client)], [client.name], version=version)
        request = LeaveGroupRequest(group_id=GROUP, member_id=client.member_id)
        return self._ask(client, request, version)

    def _commits(self, client: Client, options: Options) -> int:
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=int(options.take("generation", str(client.generation))),
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
                    ],
                )
            ],
        )
        return self._ask(client, request, 9)

    def _restarts(self, client: Client, options: Options) -> int:
        client.member_id, client.generation = "", -1
        return 0

    def _leave(self, members: list[MemberIdentity], names: list[str], *, version: int) -> int:
        request = LeaveGroupRequest(group_id=GROUP, members=members)
        ticket = self.world.ask(request, version=version)
        self.owners[ticket] = names
        return ticket

    def _identity(self, client: Client) -> MemberIdentity:
        return MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)

    def _ask(self, client: Client, request: object, version: int) -> int:
        ticket = self.world.ask(request, version=version, client_id=client.name)
        self.owners[ticket] = [client.name]
        return ticket

    def _news(self) -> dict[str, list[str]]:
        """What was answered since the last look, to whom."""
        news: dict[str, list[str]] = {}
        fresh = {t: reply for t, reply in self.world.answers.items() if t not in self.told}
        self.told.update(fresh)
        for ticket, reply in fresh.items():
            if isinstance(reply, JoinGroupResponse):
                self._learn(self._client(self.owners[ticket][0]), reply)
        for ticket, reply in fresh.items():
            names = self.owners[ticket]
            if isinstance(reply, LeaveGroupResponse) and reply.members:
                for name, member in zip(names, reply.members, strict=True):
                    news.setdefault(name, []).append(_code(member.error_code))
            else:
                (name,) = names
                news.setdefault(name, []).extend(self._render(reply))
        return news

    def _render(self, reply: object) -> list[str]:
        match reply:
            case NotDone():
                return [NOT_DONE[reply].name]
            case JoinGroupResponse():
                return self._render_join(reply)
            case SyncGroupResponse(error_code=ErrorCode.NONE):
                return [f"gets {bytes(reply.assignment).decode() or 'nothing'}"]
            case SyncGroupResponse() | HeartbeatResponse() | LeaveGroupResponse():
                return [_code(reply.error_code)]
            case OffsetCommitResponse():
                return [_code(reply.topics[0].partitions[0].error_code)]
            case _:
                raise AssertionError(reply)

    def _learn(self, client: Client, reply: JoinGroupResponse) -> None:
        if reply.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            client.member_id = reply.member_id
        if reply.error_code == ErrorCode.NONE:
            client.generation = reply.generation_id
            client.protocol_name = reply.protocol_name

    def _render_join(self, reply: JoinGroupResponse) -> list[str]:
        if reply.error_code != ErrorCode.NONE:
            return [_code(reply.error_code)]
        parts = [f"generation {reply.generation_id}", f"protocol {reply.protocol_name}"]
        if reply.members:
            parts.append(f"leads {' '.join(self._name(m.member_id) for m in reply.members)}")
        if reply.skip_assignment:
            parts.append("skips assignment")
        return parts

    def _name(self, member_id: str) -> str:
        """A member is called as its client, also one whose client has not heard from us yet."""
        for client in self.clients.values():
            if client.member_id == member_id:
                return client.name
        return member_id.rsplit("-", 1)[0]

    def _assert_group(self, text: str) -> None:
        group = self.world.shard.groups.get(GROUP)
        if text == "gone":
            assert group is None
            return
        assert isinstance(group, ClassicGroup), group
        state, _, rest = text.partition(",")
        options = Options.of(rest)
        assert group.state.value == state, group
        if generation := options.take("generation", ""):
            assert group.generation == int(generation), group
        if leader := options.take("leader", ""):
            assert self._name(group.leader or "") == leader, group
        if members := options.take("members", ""):
            assert [self._name(member_id) for member_id in group.members] == members.split()
        if protocol := options.take("protocol", ""):
            assert group.protocol_name == protocol, group
        options.done()


def subscription(topics: str) -> bytes:
    """What a consumer tells its leader. Apache Kafka reads it, and stops at what it can't read."""
    said = ConsumerProtocolSubscription(topics=topics.split())
    return write_embedded(said, version=0)


def _ms(text: str) -> int:
    count, unit = text.split()
    return int(count) * MS[unit]


def _code(code: int) -> str:
    return "ok" if code == ErrorCode.NONE else ErrorCode(code).name


def _outcomes(text: str) -> dict[str, list[str]]:
    outcomes: dict[str, list[str]] = {}
    for outcome in filter(None, (part.strip() for part in text.split(";"))):
        name, _, parts = outcome.partition(":")
        outcomes.setdefault(name, []).extend(part.strip() for part in re.split(r",\s+", parts))
    return outcomes


def _agrees(expected: list[str], seen: list[str]) -> bool:
    """Of a generation, the protocol may be left out; who leads may not."""
    telling = [part for part in seen if not part.startswith("protocol ") or part in expected]
    return sorted(expected) == sorted(telling)
