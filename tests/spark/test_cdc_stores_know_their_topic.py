"""An index or a cache of a topic that was deleted and created again: refused, and not mixed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.model.identity import TopicId
from penstock.spark.pipelines.cdc.follower import OtherTopic
from penstock.spark.pipelines.cdc.latest_rows import Row
from penstock.spark.pipelines.cdc.redis_cache import RedisCache
from penstock.spark.pipelines.cdc.store_progress import Progress, of_topic
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.redis_server import RedisServer
from rig.row_stores import KeptCache, KeptIndex, KeptRows, follow_into
from rig.serve import ServedNode


@pytest.fixture
def name(topic: Callable[..., str]) -> str:
    return topic()


@pytest.fixture
def server() -> Iterator[RedisServer]:
    one = RedisServer()
    one.start()
    yield one
    one.close()


@pytest.fixture(params=["index", "cache"])
def kept(request: pytest.FixtureRequest, name: str, folder: Path) -> KeptRows:
    if request.param == "index":
        return KeptIndex(folder / "index", topic=name)
    return KeptCache(request.getfixturevalue("server"), name=name)


def lamps(*keys: str) -> list[Message]:
    return [Message(key=key.encode(), value=b'{"v":"lamp"}') for key in keys]


def create_again(confluent: ConfluentClient, name: str, *keys: str) -> None:
    confluent.delete_topic(name)
    confluent.create_topic(name)
    confluent.produce(name, lamps(*keys))


@pytest.mark.parametrize("new_keys", [("7",), ("4", "5", "6", "7", "8")])
def test_a_topic_that_was_created_again_is_refused_until_the_store_is_emptied(
    node: ServedNode,
    confluent: ConfluentClient,
    name: str,
    kept: KeptRows,
    new_keys: tuple[str, ...],
) -> None:
    confluent.produce(name, lamps("1", "2", "3"))
    assert follow_into(kept.open(), node.bootstrap, name) == 3
    assert follow_into(kept.open(), node.bootstrap, name) == 0
    create_again(confluent, name, *new_keys)
    with pytest.raises(OtherTopic) as refused:
        follow_into(kept.open(), node.bootstrap, name)
    assert f"topic {name} before it was deleted and created again: " in str(refused.value)
    assert "filled from the first record" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert set(kept.rows()) == {"1", "2", "3"}
    kept.empty()
    assert follow_into(kept.open(), node.bootstrap, name) == len(new_keys)
    assert set(kept.rows()) == set(new_keys)


def test_a_topic_that_is_created_again_under_a_follower_ends_it(
    node: ServedNode, confluent: ConfluentClient, name: str, server: RedisServer
) -> None:
    class Recreating(RedisCache):
        """The topic is another one as soon as the first rows are written."""

        def write(self, rows: list[Row], progress: Progress) -> None:
            super().write(rows, progress)
            create_again(confluent, name, "4", "5", "6")

    confluent.produce(name, lamps("1", "2"))
    with pytest.raises(OtherTopic):
        follow_into(Recreating(server.url, name=name), node.bootstrap, name, lambda: True)
    assert set(KeptCache(server, name=name).rows()) == {"1", "2"}


def test_a_cluster_that_says_no_id_at_first_is_not_taken_for_another() -> None:
    """As brokers that are being upgraded, or one that does not know the topic yet."""
    nothing = Progress(topic_id=None, next_offsets={0: 7}, change_positions={})
    old, new = TopicId(b"o" * 16), TopicId(b"n" * 16)
    assert of_topic(nothing, None) == nothing
    known = of_topic(nothing, old)
    assert known is not None
    assert known == replace(nothing, topic_id=old)
    assert of_topic(known, None) == of_topic(known, old) == known
    assert of_topic(known, new) is None


def test_one_name_of_a_cache_is_not_for_two_topics(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str], server: RedisServer
) -> None:
    first, second = topic(), topic()
    for one in (first, second):
        confluent.produce(one, lamps("1"))
    follow_into(RedisCache(server.url, name="shared"), node.bootstrap, first)
    with pytest.raises(OtherTopic, match="cache shared has rows of another topic"):
        follow_into(RedisCache(server.url, name="shared"), node.bootstrap, second)
