"""A declared message is a plain value with defaults, and declaring it compiles nothing."""

import subprocess
import sys

import pytest
from kio.schema.index import api_key_map

from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.definition import versions_of
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.wire.messages.metadata import MetadataRequest


def test_every_field_has_a_default() -> None:
    request = FetchRequest()
    assert request.max_bytes == 2**31 - 1
    assert request.session_epoch == -1
    assert request.cluster_id is None
    assert request.replica_state is None
    assert request.topics == []
    assert FetchTopic().topic_id == bytes(16)


def test_lists_of_two_messages_are_two_lists() -> None:
    assert FetchRequest().topics is not FetchRequest().topics


def test_null_list_is_not_the_default_one() -> None:
    assert MetadataRequest(topics=None).topics is None
    assert MetadataRequest().topics == []


def test_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        FetchRequest(no_such_field=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchRequest().no_such_field = 1  # type: ignore[attr-defined]


def test_messages_are_equal_by_value_and_show_their_fields() -> None:
    assert FetchPartition(partition=1) == FetchPartition(partition=1)
    assert FetchPartition(partition=1) != FetchPartition(partition=2)
    assert FetchPartition() != FetchTopic()
    assert "partition=1, current_leader_epoch=-1" in repr(FetchPartition(partition=1))


def test_class_tells_its_key_and_versions() -> None:
    assert FetchRequest.API_KEY == ApiKey.FETCH
    assert VersionRange(4, 18) == FetchRequest.VERSIONS
    assert FetchRequest.FLEXIBLE_FROM == 12


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3+", VersionRange(3, 32767)), ("0-12", VersionRange(0, 12)), ("4", VersionRange(4, 4))],
)
def test_versions_are_written_as_kafka_writes_them(text: str, versions: VersionRange) -> None:
    assert versions_of(text) == versions


def test_version_range_holds_both_its_ends() -> None:
    versions = VersionRange(3, 5)
    assert [version for version in range(8) if version in versions] == [3, 4, 5]


def test_api_keys_have_the_names_that_others_give_them() -> None:
    for key, name in api_key_map.items():
        assert ApiKey(key).name.replace("_", "") == name.replace("_", "").upper()


def test_importing_messages_compiles_nothing() -> None:
    program = (
        "import penstock.wire.header\n"
        "def refuse(*_, **__): raise SystemExit('compiled')\n"
        "from penstock.wire import definition, reader_source, writer_source\n"
        "definition.compile_constructor = refuse\n"
        "reader_source.ReaderSource.__init__ = refuse\n"
        "writer_source.WriterSource.__init__ = refuse\n"
        "import penstock.wire.messages.fetch, penstock.wire.messages.produce\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0
