"""Session and pace of a consumer group are its own where it has set them."""

from dataclasses import replace

from penstock.metadata.image.image import ConfigResource
from penstock.model.configs import ResourceKind
from rig.group_world import GroupWorld
from rig.modern_consumer import ModernConsumer, Topics

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def member_of(group: str, **config: str) -> ModernConsumer:
    """Of a node on which the group `own` has these settings."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    image = replace(
        Topics({"t": 2}).image(),
        configs={ConfigResource(ResourceKind.GROUP, "own"): settings},
    )
    member = ModernConsumer(GroupWorld(image=image), group, f"m-{group}", topics=("t",))
    member.act()
    return member


def is_member(one: ModernConsumer) -> bool:
    found = one.world.shard.groups.get(one.group)
    return found is not None and one.member_id in found.members


def test_a_silent_member_is_removed_after_the_groups_own_session() -> None:
    own = member_of("own", consumer_session_timeout_ms="50000")
    other = member_of("other", consumer_session_timeout_ms="50000")
    for member in (own, other):
        member.world.pass_time(45_001)
    assert is_member(own)
    assert not is_member(other)
    own.world.pass_time(5_000)
    assert not is_member(own)


def test_the_groups_own_interval_is_told_as_it_is() -> None:
    assert member_of("own", consumer_heartbeat_interval_ms="7000").interval_ms == 7000
    assert member_of("other", consumer_heartbeat_interval_ms="7000").interval_ms < 1000


def test_a_session_of_its_own_leaves_the_pace_to_the_node() -> None:
    assert member_of("own", consumer_session_timeout_ms="50000").interval_ms < 1000


def test_a_change_holds_from_the_next_heartbeat_on() -> None:
    member = member_of("own")
    image = member.world.image
    resource = ConfigResource(ResourceKind.GROUP, "own")
    member.world.image = replace(image, configs={resource: {SESSION: "60000", HEARTBEAT: "6000"}})
    member.act()
    assert member.interval_ms == 6000
    member.world.pass_time(59_000)
    assert is_member(member)
