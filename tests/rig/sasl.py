"""Settings of a node whose clients log in, and of the clients."""

from collections.abc import Mapping

USERS = {"admin": "admin-secret", "alice": "alice-secret"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def plain_users(users: Mapping[str, str] = USERS, *, own: str | None = None) -> str:
    """A line of JAAS with users, and with the node's own log-in if it has one."""
    login = "" if own is None else f' username="{own}" password="{users[own]}"'
    listed = "".join(f' user_{name}="{password}"' for name, password in users.items())
    return f"{PLAIN_MODULE} required{login}{listed};"


def sasl_listener(*mechanisms: str, **settings: str) -> dict[str, str]:
    """A listener SASL_PLAINTEXT for log-ins by these mechanisms, and one without for the rest of
    the test; settings are keywords with underscores for dots.
    """
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(mechanisms),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
