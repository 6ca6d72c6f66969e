"""Options have the names of Spark's Kafka source and sink, and none is ignored in silence."""

import pickle
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from penstock.spark.config_file import connection_options, with_file
from penstock.spark.data_source import PenstockDataSource
from penstock.spark.options import BadOption, Given, given, unheeded
from penstock.spark.sink.options import sink_options
from penstock.spark.source.options import source_options

KNOWN = ("subscribe", "startingOffsets", "failOnDataLoss", "minPartitions", "mode")
BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(**options: str) -> Given:
    return given(options | BOOTSTRAP, known=KNOWN)


def test_names_have_no_case() -> None:
    assert read(SUBSCRIBE="a", startingoffsets="earliest").text("startingOffsets") == "earliest"
    assert given({"Kafka.Bootstrap.Servers": "b:1"}, known=()).connection().bootstrap == "b:1"


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("subscribed", "subscribe"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("failOnDataloss ", "failOnDataLoss"),
    ],
)
def test_a_name_that_nobody_knows_is_refused_with_the_one_that_was_meant(
    told: str, meant: str
) -> None:
    with pytest.raises(BadOption) as refusal:
        read(**{told: "1"})
    assert str(refusal.value) == f"there is no option {told}: did you mean {meant}?"


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ({"kafka.bootstrap.server": "h:1"}, "kafka.bootstrap.servers"),
        ({"brokers": "h:1"}, "kafka.bootstrap.servers"),
        (BOOTSTRAP | {"isolation.level": "read_committed"}, "kafka.isolation.level"),
        (BOOTSTRAP | {"topic": "t"}, "subscribe"),
    ],
)
def test_the_source_knows_what_other_clients_call_its_options(
    told: dict[str, str], meant: str
) -> None:
    with pytest.raises(BadOption, match=rf"^there is no option .*: did you mean {meant}\?$"):
        source_options(told, streaming=False)


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ({"subscribe": "t"}, "topic"),
        ({"topics": "t"}, "topic"),
        ({"topic": "t", "compression.type": "lz4"}, "kafka.compression.type"),
    ],
)
def test_the_sink_knows_what_other_clients_call_its_options(
    told: dict[str, str], meant: str
) -> None:
    with pytest.raises(BadOption, match=rf"^there is no option .*: did you mean {meant}\?$"):
        sink_options(BOOTSTRAP | told)


def test_a_name_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(BadOption, match=r"^there is no option quux$"):
        read(quux="1")


@pytest.mark.parametrize("name", ["kafka.auto.offset.reset", "kafka.Key.Deserializer"])
def test_what_spark_decides_itself_cannot_be_told(name: str) -> None:
    with pytest.raises(BadOption, match=f"option {name.lower()} can't be given"):
        read(**{name: "x"})


def test_what_spark_adds_itself_is_no_fault() -> None:
    assert read(checkpointLocation="/c", path="/p", queryName="q").text("path") == "/p"


def test_settings_that_nobody_obeys_are_told_as_they_were_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = BOOTSTRAP | {
        "kafka.Fetch.Max.Bytes": "banana",
        "kafka.isolation.level": "read_committed",
    }
    assert unheeded(told, heeded=("isolation.level",)) == ["kafka.Fetch.Max.Bytes"]
    misspelt = unheeded({"kafka.isolation.levl": "read_committed"}, heeded=("isolation.level",))
    assert misspelt == ["kafka.isolation.levl (did you mean kafka.isolation.level?)"]
    source = PenstockDataSource(told | {"subscribe": "t"})
    source.reader(source.schema())
    assert [one.getMessage() for one in caplog.records] == [
        "these options have no effect on penstock: kafka.Fetch.Max.Bytes"
    ]


def logged(
    caplog: pytest.LogCaptureFixture, options: dict[str, str], *, half: str, checkpoint: Path
) -> list[str]:
    """What is told of options in a few batches of a query, or in a few single reads."""
    caplog.clear()
    topic = "subscribe" if half in ("reader", "streamReader") else "topic"
    told = BOOTSTRAP | {"checkpointLocation": str(checkpoint), topic: "t"} | options
    for _ in range(3):
        source = PenstockDataSource(told)
        match half:
            case "reader":
                source.reader(source.schema())
            case "streamReader":
                source.streamReader(source.schema())
            case "writer":
                source.writer(ROWS, False)
            case _:
                source.streamWriter(ROWS, False)
    return [one.getMessage() for one in caplog.records]


ROWS = StructType().add("value", "binary")
FOR_STREAMS = ("maxOffsetsPerTrigger", "maxOffsetsPerTriggerBy", "minOffsetsPerTrigger",
               "maxBytesPerTrigger", "maxTriggerDelay", "groupId", "groupIdPrefix")  # fmt: skip


@pytest.mark.parametrize("half", ["writer", "streamWriter"])
def test_a_warning_is_logged_once_for_each_query_however_many_batches_it_has(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, half: str
) -> None:
    odd = {"mode": "exactly_once", "kafka.linger": "5"}
    for name in ("one", "another"):
        assert logged(caplog, odd, half=half, checkpoint=tmp_path / name) == [
            "option mode is called delivery now; it is still obeyed",
            "these options have no effect on penstock: kafka.linger",
        ]


@pytest.mark.parametrize("name", FOR_STREAMS)
def test_an_option_for_streams_is_told_to_have_no_effect_on_a_single_read(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, name: str
) -> None:
    value = {"maxOffsetsPerTriggerBy": "timestamp", "maxTriggerDelay": "5m"}.get(name, "7")
    [line] = logged(caplog, {name.lower(): value}, half="reader", checkpoint=tmp_path)
    assert line == f"option {name} has no effect on a single read: it is for streams"


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        ("maxOffsetsPerTriggerBy", "timestamp", "maxOffsetsPerTrigger"),
        ("maxTriggerDelay", "5m", "minOffsetsPerTrigger"),
    ],
)
def test_an_option_without_the_one_that_it_needs_is_told_to_have_no_effect(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, name: str, value: str, needed: str
) -> None:
    half = "streamReader"
    [line] = logged(caplog, {name: value}, half=half, checkpoint=tmp_path / "alone")
    assert line == f"option {name} has no effect without {needed}"
    assert logged(caplog, {name: value, needed: "9"}, half=half, checkpoint=tmp_path) == []


@pytest.mark.parametrize("half", ["writer", "streamWriter"])
def test_options_of_transactions_are_told_to_have_no_effect_without_any(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, half: str
) -> None:
    told = {"decisionTopic": "d", "decisionReplicas": "1", "twoPhase": "auto", "sinkId": "s"}
    assert logged(caplog, told, half=half, checkpoint=tmp_path / "exactly") == []
    plain = {**told, "delivery": "at_least_once"}
    assert logged(caplog, plain, half=half, checkpoint=tmp_path / "plain") == [
        f"option {name} has no effect with delivery=at_least_once, which has no transactions"
        for name in told
    ]


def test_an_id_that_batch_writer_gives_is_not_complained_about(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    batch = {"sinkId": "s", "queryId": "q", "runId": "r", "batchId": "4"}
    plain = {**batch, "delivery": "at_least_once"}
    assert logged(caplog, plain, half="writer", checkpoint=tmp_path) == []


def test_secrets_without_a_protocol_that_uses_them_are_refused() -> None:
    with pytest.raises(BadOption, match=r"sasl\.mechanism has no effect without"):
        read(**{"kafka.sasl.mechanism": "PLAIN"}).connection()
    spoken = {"kafka.sasl.mechanism": "PLAIN", "kafka.security.protocol": "PLAINTEXT"}
    assert read(**spoken).connection().setting("sasl.mechanism") == "PLAIN"


def test_options_of_sparks_own_source_for_fetching_offsets_are_obeyed() -> None:
    told = {"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "7", "subscribe": "t"}
    patience = source_options(BOOTSTRAP | told, streaming=False).patience
    assert (patience.retries_max, patience.pause_ms) == (2, 7)


def test_settings_of_the_client_are_passed_on() -> None:
    connection = read(**{"kafka.client.id": "me", "kafka.linger.ms": "5"}).connection()
    assert connection.setting("client.id") == "me"
    assert connection.number("linger.ms", 0) == 5
    assert connection.number("batch.size", 7) == 7
    assert connection.setting("bootstrap.servers") is None
    assert pickle.loads(pickle.dumps(connection)) == connection


def test_without_an_address_nothing_is_read() -> None:
    with pytest.raises(BadOption, match=r"option kafka\.bootstrap\.servers is missing"):
        given({}, known=()).connection()


@pytest.mark.parametrize("told", ["0", "-1", "many", "", "1.5", "٣"])
def test_a_number_must_be_one(told: str) -> None:
    with pytest.raises(BadOption, match=r"option minPartitions is .*: it must be a whole number"):
        read(minPartitions=told).number("minPartitions")


def test_a_choice_must_be_among_what_can_be_chosen() -> None:
    assert read(failOnDataLoss="FALSE").flag("failOnDataLoss", True) is False
    assert read().flag("failOnDataLoss", True) is True
    with pytest.raises(BadOption, match="option failOnDataLoss is 'no': it can be true or false"):
        read(failOnDataLoss="no").flag("failOnDataLoss", True)


def test_a_list_of_names_has_each_once_and_at_least_one() -> None:
    assert read(subscribe=" a,b ,a,").names("subscribe") == ("a", "b")
    with pytest.raises(BadOption, match="option subscribe is empty"):
        read(subscribe=" , ").names("subscribe")


def test_options_of_a_log_in_have_an_effect() -> None:
    told = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "...",
        "kafka.ssl.truststore.location": "...",
    }
    assert unheeded(told, heeded=()) == []


def test_settings_of_the_client_come_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_A_TEST", "hush")
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=far:1\nsecurity.protocol=SASL_SSL\nclient.id=of-file\n"
        "sasl.password=${env:SECRET_OF_A_TEST}\nkey.serializer=of.Java\n"
    )
    told = {"configFile": str(file), "kafka.client.id": "of-option"}
    found = connection_options(told)
    assert found.bootstrap == "far:1"
    assert dict(found.kafka) == {
        "security.protocol": "SASL_SSL",
        "client.id": "of-option",
        "sasl.password": "hush",
    }
    assert "hush" not in repr(found)
    assert connection_options(told | BOOTSTRAP).bootstrap == "127.0.0.1:9092"
    reads = with_file(told | {"subscribe": "t"})
    assert source_options(reads, streaming=True).connection == found
    assert sink_options(with_file(told)).connection == found
    assert with_file(BOOTSTRAP) == BOOTSTRAP


def test_a_file_of_settings_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"option configFile: .*missing: No such file"):
        connection_options({"configFile": str(tmp_path / "missing")} | BOOTSTRAP)
