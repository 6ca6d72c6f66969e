"""Scenarios of consumer groups that read like a log of what happens: a step, and what is told.

    == A second member takes over half of the partitions
    a joins t                   => epoch 2, owns t0 t1 t2 t3
    b joins t                   => epoch 3, owns nothing
    a heartbeats                => epoch 2, owns t0 t1
    a reports                   => epoch 3
    b heartbeats                => epoch 3, owns t2 t3

After the arrow stands what whoever acts is answered. `owns` is the assignment, when the answer has
one. A client goes on owning what it owned until it `reports`. Steps:

    settings NAME=VALUE ...             topics t=4 u=2              before all other steps
    a joins t u, static NAME, wanting range, within 5 s             a joins pattern REGEX
    a heartbeats, epoch 7               a loses a reply             a tells all again
    a reports                           gives up and takes over what it was told, and says so
    a subscribes t u; subscribes pattern REGEX                      at its next heartbeat
    a leaves    a steps out    a dies   a returns as c              (a static member)
    instance i1, member a, member a of i1 are removed               (by LeaveGroup: a result each)
    a commits t0, epoch 7               a promises t0, epoch 7      (in a transaction)
    c enters classically t, static NAME, with PROTOCOL              joins, twice if need be
    c joins    c syncs    c listens     of the classic protocol; as leader it assigns
    topic u appears with 3              topic t grows by 2          topic t goes
    5 s pass                            the coordinator fails over
    the group is Stable, epoch 3, members a b, of type consumer
"""

import re

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.consumer.group import ConsumerGroup
from penstock.model.error import ErrorCode
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
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from rig.group_scenario import MS, Options, Scenario
from rig.group_world import GroupWorld
from rig.modern_consumer import ModernConsumer, Topics
from rig.upgradable_consumer import UpgradableConsumer

GROUP = "orders"


class ModernRun:
    """One scenario under way."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.topics = Topics({"t": 4})
        self.settings = {"group.initial.rebalance.delay.ms": "0"}
        self.consumers: dict[str, ModernConsumer] = {}
        self.classics: dict[str, UpgradableConsumer] = {}
        self._begin()

    def play(self) -> None:
        for number, line in self.scenario.lines:
            step, _, expected = (part.strip() for part in line.partition("=>"))
            seen = self._do(step) or ""
            assert seen == expected, f"line {number}: {line}\n  but: {seen}"

    def _begin(self) -> None:
        self.world = GroupWorld(self.settings, image=self.topics.image())

    def _do(self, step: str) -> str | None:
        if found := re.fullmatch(r"(settings|topics) (.*)", step):
            pairs = dict(pair.split("=", 1) for pair in found[2].split())
            if found[1] == "settings":
                self.settings |= pairs
            else:
                self.topics = Topics({name: int(count) for name, count in pairs.items()})
            self._begin()
        elif found := re.fullmatch(r"(\d+) (ms|s|min) pass", step):
            self.world.pass_time(int(found[1]) * MS[found[2]])
        elif step == "the coordinator fails over":
            self.world.fail_over()
        elif found := re.fullmatch(r"topic (\w+) (appears with|grows by|goes)( \d+)?", step):
            self._change_topic(found[1], found[2], int(found[3] or 0))
        elif found := re.fullmatch(r"((?:instance|member) .*) (?:is|are) removed", step):
            return self._remove(found[1].split(", "))
        elif step.startswith("the group is "):
            self._assert_group(step.removeprefix("the group is "))
        else:
            return self._act(step)
        return None

    def _change_topic(self, name: str, how: str, count: int) -> None:
        match how:
            case "appears with":
                self.topics.create(name, count)
            case "grows by":
                self.topics.grow(name, count)
            case _:
                self.topics.delete(name)
        self.world.image = self.topics.image()

    def _remove(self, named: list[str]) -> str:
        """As an administrator does, who knows of members by their instance, by their id or both."""
        identities = []
        for kind, name, *of in (one.split() for one in named):
            by_id = MemberIdentity(member_id=name, group_instance_id=of[1] if of else None)
            by_instance = MemberIdentity(member_id="", group_instance_id=name)
            identities.append(by_id if kind == "member" else by_instance)
        request = LeaveGroupRequest(group_id=GROUP, members=identities)
        reply = self.world.answers[self.world.ask(request, version=5)]
        assert isinstance(reply, LeaveGroupResponse)
        return ", ".join(_code(ErrorCode(one.error_code)) for one in reply.members)

    def _act(self, step: str) -> str | None:
        head, _, rest = step.partition(",")
        name, verb, *words = head.split()
        options = Options.of(rest)
        if name in self.classics or "classically" in words:
            seen = self._classic(name, verb, words, options)
        else:
            seen = getattr(self, f"_{verb}")(name, words, options)
        options.done()
        return seen

    def _joins(self, name: str, words: list[str], options: Options) -> str:
        count, unit = options.take("within", "60 s").split()
        consumer = ModernConsumer(
            self.world,
            GROUP,
            name,
            instance_id=options.take("static", "") or None,
            assignor=options.take("wanting", "") or None,
            rebalance_ms=int(count) * MS[unit],
        )
        self.consumers[name] = consumer
        self._subscribes(name, words, options)
        return self._told(consumer)

    def _heartbeats(self, name: str, words: list[str], options: Options) -> str:
        consumer = self.consumers[name]
        consumer.epoch = int(options.take("epoch", str(consumer.epoch)))
        return self._told(consumer)

    def _reports(self, name: str, words: list[str], options: Options) -> str:
        self.consumers[name].acknowledge()
        return self._told(self.consumers[name])

    def _tells(self, name: str, words: list[str], options: Options) -> str:
        self.consumers[name].tells_all = True
        return self._told(self.consumers[name])

    def _loses(self, name: str, words: list[str], options: Options) -> None:
        self.consumers[name].heartbeat(reply_lost=True)

    def _subscribes(self, name: str, words: list[str], options: Options) -> None:
        if words[:1] == ["pattern"]:
            self.consumers[name].subscribe(regex=" ".join(words[1:]))
        else:
            self.consumers[name].subscribe(topics=tuple(words))

    def _leaves(self, name: str, words: list[str], options: Options) -> str:
        self.consumers[name].leave()
        return _code(self.consumers[name].last_code)

    def _steps(self, name: str, words: list[str], options: Options) -> str:
        self.consumers[name].leave(to_return=True)
        return _code(self.consumers[name].last_code)

    def _dies(self, name: str, words: list[str], options: Options) -> None:
        self.consumers[name].die()

    def _returns(self, name: str, words: list[str], options: Options) -> str:
        former, (_, new_name) = self.consumers[name], words
        assert former.instance_id is not None
        return self._joins(
            new_name, list(former.topics or ()), Options.of(f"static {former.instance_id}")
        )

    def _commits(self, name: str, words: list[str], options: Options) -> str:
        (partition,) = words
        member_id, epoch = self._identity(name)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=int(options.take("epoch", str(epoch))),
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=partition[:-1],
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=int(partition[-1]), committed_offset=1
                        )
                    ],
                )
            ],
        )
        version = int(options.take("version", "9"))
        reply = self.world.answers[self.world.ask(request, version=version)]
        assert isinstance(reply, OffsetCommitResponse)
        return _code(ErrorCode(reply.topics[0].partitions[0].error_code))

    def _promises(self, name: str, words: list[str], options: Options) -> str:
        (partition,) = words
        member_id, epoch = self._identity(name)
        promised = TxnOffsetCommitRequestPartition(
            partition_index=int(partition[-1]), committed_offset=1
        )
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=GROUP,
            producer_id=1,
            generation_id=int(options.take("epoch", str(epoch))),
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(name=partition[:-1], partitions=[promised])],
        )
        reply = self.world.answers[self.world.ask(request, version=5)]
        assert isinstance(reply, TxnOffsetCommitResponse)
        return _code(ErrorCode(reply.topics[0].partitions[0].error_code))

    def _identity(self, name: str) -> tuple[str, int]:
        if name in self.classics:
            return self.classics[name].member_id, self.classics[name].generation
        consumer = self.consumers.get(name)
        return (name, -1) if consumer is None else (name, consumer.epoch)

    def _classic(self, name: str, verb: str, words: list[str], options: Options) -> str:
        if verb == "enters":
            self.classics[name] = UpgradableConsumer(
                self.world,
                GROUP,
                topics=tuple(words[1:]),
                counts=self.topics.counts,
                instance_id=options.take("static", "") or None,
                protocol=options.take("with", "cooperative-sticky"),
            )
        consumer = self.classics[name]
        if verb == "commits":
            return self._commits(name, words, options)
        if verb in ("leaves", "dies"):
            consumer.leave() if verb == "leaves" else consumer.die()
            return "ok" if verb == "leaves" else ""
        owned = consumer.owned
        consumer.last_code = ErrorCode.NONE
        getattr(consumer, verb.removesuffix("s"), consumer.join)()
        consumer.listen()
        if consumer.last_code is ErrorCode.MEMBER_ID_REQUIRED and verb == "enters":
            consumer.join()
            consumer.listen()
        if consumer.ticket is not None:
            return "waits"
        if consumer.last_code is not ErrorCode.NONE:
            return _code(consumer.last_code)
        if verb in ("enters", "joins", "listens"):
            return f"generation {consumer.generation}"
        if verb == "syncs":
            named = " ".join(f"{topic}{n}" for topic, n in sorted(consumer.owned))
            return f"owns {named or 'nothing'}" if owned != consumer.owned else "owns the same"
        return "ok"

    def _told(self, consumer: ModernConsumer) -> str:
        nothing_yet = frozenset({TopicIdPartition(self.topics.topic_id("t"), -1)})
        told, consumer.told = consumer.told, nothing_yet
        consumer.heartbeat()
        if consumer.last_code is not ErrorCode.NONE:
            return _code(consumer.last_code)
        if consumer.told is nothing_yet:
            consumer.told = told
            return f"epoch {consumer.epoch}"
        return f"epoch {consumer.epoch}, owns {self._named(consumer.told)}"

    def _named(self, partitions: frozenset[TopicIdPartition]) -> str:
        names = {self.topics.topic_id(name): name for name in self.topics.counts}
        found = sorted(f"{names.get(p.topic_id, '?')}{p.partition}" for p in partitions)
        return " ".join(found) or "nothing"

    def _assert_group(self, text: str) -> None:
        state, _, rest = text.partition(",")
        options = Options.of(rest)
        group = self.world.shard.groups[GROUP]
        assert group.state.value == state, group
        is_consumer = isinstance(group, ConsumerGroup)
        wanted_type = options.take("of", "type consumer").removeprefix("type ")
        assert wanted_type == ("consumer" if is_consumer else "classic"), group
        if epoch := options.take("epoch", ""):
            assert isinstance(group, ConsumerGroup)
            assert group.epoch == int(epoch), group
        if members := options.take("members", ""):
            names = {consumer.member_id: name for name, consumer in self.classics.items()}
            assert [names.get(id_, id_) for id_ in group.members] == members.split()
        options.done()


def _code(code: ErrorCode) -> str:
    return "ok" if code is ErrorCode.NONE else code.name
