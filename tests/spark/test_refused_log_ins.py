"""A source whose options do not let it in says why, before Spark starts a task."""

from collections.abc import Iterator

import pytest

from penstock.client.network.errors import ClientError
from rig.logins.secured import Credentials, SecuredNode
from rig.logins.strangers import strangers
from rig.spark_source import batch_reader, stream_reader

INVALID = "invalid credentials with SASL mechanism"
# A handshake that fails may be that of a broker which starts again, so it is tried for 15 seconds.
GIVE_UP_SOON = {"default.api.timeout.ms": "500"}
REFUSALS = {
    "wrong password, SCRAM": f"{INVALID} SCRAM-SHA-512",
    "expired token": f"{INVALID} OAUTHBEARER",
    "wrong audience": f"{INVALID} OAUTHBEARER",
    "foreign certificate": "alert unknown ca",
    "expired certificate": "alert certificate expired",
}


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredNode]:
    one = SecuredNode(tmp_path_factory.mktemp("node"), credentials)
    yield one
    one.stop()


@pytest.mark.parametrize("who", REFUSALS)
def test_a_stranger_is_refused_where_partitions_are_planned(
    node: SecuredNode, credentials: Credentials, who: str
) -> None:
    listener, login = strangers(credentials)[who]
    settings = {**login.java_settings(), **GIVE_UP_SOON}
    options = {f"kafka.{name}": value for name, value in settings.items()}
    bootstrap = node.addresses[listener]
    with pytest.raises(ClientError, match=REFUSALS[who]) as of_batch:
        batch_reader(bootstrap, subscribe="any", **options).partitions()
    with pytest.raises(ClientError, match=REFUSALS[who]) as of_stream:
        stream_reader(bootstrap, subscribe="any", **options).initialOffset()
    for refused in (of_batch, of_stream):
        assert login.password not in str(refused.value)
