"""A query of Spark, with its exactly-once sink, runs with what `acls grant spark` gives alone."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from rig.apache_kafka.secured import CommandFailed, run_penstock
from rig.logins.login import PATIENCE_SECONDS
from rig.logins.secured import Credentials, SecuredNode
from rig.numbered_rows import judge_topic, make_topics, write_numbers
from rig.spark_query import Carrying, carry, start

ROWS = 24
DENIED = r"(?i)authorization.failed"
SINK, GROUP = "totals-sink", "totals-lag"


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredNode]:
    """Whoever comes by plain text may do all: the tests themselves. Others have no right."""
    one = SecuredNode(
        tmp_path_factory.mktemp("node"),
        credentials,
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:node;User:ANONYMOUS",
        transaction_two_phase_commit_enable="true",
        auto_create_topics_enable="false",
    )
    yield one
    one.stop()


def await_group(bootstrap: str) -> None:
    """Spark tells of a batch some time after it is done."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while GROUP not in run_penstock("groups", "list", "--bootstrap", bootstrap):
        assert time.monotonic() < deadline, "the progress of the query was not committed"


def test_a_query_needs_one_grant_and_may_do_no_more(
    spark: SparkSession,
    guarded: SecuredNode,
    credentials: Credentials,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    inside, outside = guarded.addresses["PLAINTEXT"], guarded.addresses["SASL_SSL"]
    make_topics(inside, "orders", "totals", partitions=2)
    write_numbers(inside, "orders", range(ROWS))
    config = str(credentials.by_sasl("SCRAM-SHA-512").write(tmp_path / "client.properties"))
    carrying = Carrying(
        bootstrap=outside,
        source="orders",
        sink="totals",
        checkpoint=str(tmp_path / "checkpoint"),
        reader_options={"configFile": config, "groupId": GROUP},
        writer_options={"configFile": config, "sinkId": SINK},
    )
    with pytest.raises(Exception, match=DENIED):
        carry(spark, replace(carrying, checkpoint=str(tmp_path / "denied")))
    run_penstock(
        *("acls", "grant", "spark", "alice", "--read", "orders", "--write", "totals"),
        *("--sink", SINK, "--group", GROUP, "--bootstrap", inside),
    )
    query = start(spark, carrying)
    query.awaitTermination()
    assert not judge_topic(inside, "totals", count=ROWS).faults
    await_group(inside)
    # Neither the lag nor the clean-up after the query was refused.
    assert [line for line in caplog.messages if str(query.id) in line] == []
    as_alice = ("--bootstrap", outside, "--command-config", config)
    with pytest.raises(CommandFailed, match=DENIED):
        run_penstock("produce", "orders", *as_alice, input="not mine\n")
    with pytest.raises(CommandFailed, match=DENIED):
        run_penstock("consume", "totals", "--max", "1", *as_alice)
