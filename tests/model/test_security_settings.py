"""Security settings that mean something else than they seem to say are refused in one line."""

import pytest

from penstock.model.sasl import Mechanism
from penstock.model.settings.broker import parse_broker, without_effect
from penstock.model.settings.setting import InvalidSetting


@pytest.mark.parametrize("text", ["User:a,User:b", "User:c;User:a, User:b", "User:CN=a,User:b"])
def test_super_users_are_separated_by_semicolons(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"super\.users: .*semicolons: User:\S+;User:b"):
        parse_broker({"super.users": text})


def test_the_name_of_a_super_user_may_hold_commas() -> None:
    settings = parse_broker({"super.users": "User:CN=a,OU=User,O=x;User:b"})
    assert settings.authorization.super_users == ("User:CN=a,OU=User,O=x", "User:b")


LISTENERS = {
    "listeners": "EXTERNAL://h:1,CONTROLLER://h:2",
    "listener.security.protocol.map": "EXTERNAL:SASL_SSL,CONTROLLER:SSL,REPLICATION-9091:SSL",
    "controller.listener.names": "CONTROLLER",
}
JAAS = "sasl.jaas.config"
HANDLER = "sasl.server.callback.handler.class"
KAFKAS = "org.apache.kafka.common.security."
OF_TOKENS = f"{KAFKAS}oauthbearer.OAuthBearerValidatorCallbackHandler"


@pytest.mark.parametrize(
    "name",
    [
        "external.ssl.client.auth",
        "external.ssl.protocol",
        "external.sasl.enabled.mechanisms",
        "external.plain.sasl.jaas.config",
        "external.scram-sha-512.sasl.jaas.config",
        "external.gssapi.sasl.jaas.config",
        "external.oauthbearer.connections.max.reauth.ms",
        "external.oauthbearer.sasl.oauthbearer.jwks.endpoint.url",
        "external.sasl.kerberos.service.name",
        "external.max.connections",
        "external.socket.send.buffer.bytes",
        "controller.ssl.client.auth",
        "replication-9091.ssl.client.auth",
    ],
)
def test_settings_of_a_listener_are_accepted(name: str) -> None:
    texts = {"ssl.client.auth": "required", "max.reauth.ms": "1", "max.connections": "1"}
    text = next((text for end, text in texts.items() if name.endswith(end)), "PLAIN")
    given = {**LISTENERS, f"listener.name.{name}": text}
    assert parse_broker(given).given[f"listener.name.{name}"] == text


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("controller.ssl.client.auht", "did you mean listener.name.controller.ssl.client.auth?"),
        ("CONTROLLER.ssl.client.auth", "did you mean listener.name.controller.ssl.client.auth?"),
        ("external.SSL.client.auth", "did you mean listener.name.external.ssl.client.auth?"),
        (
            "controler.ssl.client.auth",
            "no listener has this name: there is CONTROLLER, EXTERNAL, REPLICATION-9091;"
            " did you mean listener.name.controller.ssl.client.auth?",
        ),
        ("x.y", "no listener has this name: there is CONTROLLER, EXTERNAL, REPLICATION-9091)"),
        ("external", "no listener has this name"),
        ("external.", "no listener has such a setting"),
        (f"external.plian.{JAAS}", f"did you mean listener.name.external.plain.{JAAS}?"),
        (f"external.PLAIN.{JAAS}", f"did you mean listener.name.external.plain.{JAAS}?"),
        ("external.plain.ssl.client.auth", "did you mean listener.name.external.ssl.client.auth?"),
        ("external.super.users", "no listener has such a setting"),
        ("ssl.client.auth", "no listener has this name"),
    ],
)
def test_a_slip_in_the_name_of_a_setting_of_a_listener_is_refused(name: str, right: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        parse_broker({**LISTENERS, f"listener.name.{name}": "s3cret"})
    assert f"Unknown broker config name: listener.name.{name} (" in str(refused.value)
    assert right in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("prefix", ["listener.names", "listeners.name", "listener.nmae"])
def test_a_slip_before_the_name_of_a_listener_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidSetting, match=r"listener\.name\.external\.ssl\.client\.auth"):
        parse_broker({**LISTENERS, f"{prefix}.external.ssl.client.auth": "required"})


def test_a_listener_of_another_protocol_than_the_one_that_is_set_is_refused() -> None:
    given = {"listeners": "SASL_SSL://h:1", "listener.name.ssl.ssl.client.auth": "required"}
    with pytest.raises(InvalidSetting, match="there is SASL_SSL"):
        parse_broker(given)


@pytest.mark.parametrize(
    "name",
    [
        "principal.builder.class",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class",
        HANDLER,
        "security.providers",
        "ssl.engine.factory.class",
        "listener.name.external.principal.builder.class",
        f"listener.name.external.plain.{HANDLER}",
        "listener.name.external.oauthbearer.sasl.login.callback.handler.class",
    ],
)
def test_a_class_that_would_check_clients_is_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match=r"com\.example\.Own for .* No class is loaded here"):
        parse_broker({**LISTENERS, name: "com.example.Own"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("principal.builder.class", f"{KAFKAS}authenticator.DefaultKafkaPrincipalBuilder"),
        ("sasl.oauthbearer.jwt.validator.class", f"{KAFKAS}oauthbearer.DefaultJwtValidator"),
        ("sasl.oauthbearer.jwt.retriever.class", f"{KAFKAS}oauthbearer.DefaultJwtRetriever"),
        (f"listener.name.external.oauthbearer.{HANDLER}", OF_TOKENS),
        ("ssl.engine.factory.class", f" {KAFKAS}ssl.DefaultSslEngineFactory "),
        (HANDLER, ""),
        ("security.providers", ""),
    ],
)
def test_classes_of_apache_kafka_that_do_what_is_done_here_are_accepted(
    name: str, text: str
) -> None:
    assert parse_broker({**LISTENERS, name: text}).given[name] == text


def test_the_bound_on_connections_of_a_listener_goes_before_that_of_the_node() -> None:
    settings = parse_broker({**LISTENERS, "listener.name.external.max.connections": " 7 "})
    assert settings.max_connections_of("EXTERNAL") == 7
    assert settings.max_connections_of("CONTROLLER") is None
    assert without_effect(settings) == ()


def test_a_wrong_bound_on_connections_of_a_listener_is_refused() -> None:
    given = {**LISTENERS, "listener.name.external.max.connections": "many"}
    with pytest.raises(InvalidSetting, match=r"many for .* listener\.name\.external\.max\.conn"):
        parse_broker(given)


def test_a_limit_on_the_rate_of_new_connections_is_named_as_without_effect() -> None:
    names = ("listener.name.external.max.connection.creation.rate", "max.connection.creation.rate")
    assert without_effect(parse_broker({**LISTENERS, **dict.fromkeys(names, "10")})) == names


@pytest.mark.parametrize(
    "prefix", ["", "listener.name.external.", "listener.name.external.oauthbearer."]
)
@pytest.mark.parametrize(
    "address", ["https://u:s3cret@h/keys", "htps://s3cret@h", "u:s3cret@h/keys"]
)
def test_an_address_of_keys_with_a_password_is_refused_and_not_shown(
    prefix: str, address: str
) -> None:
    name = f"{prefix}sasl.oauthbearer.jwks.endpoint.url"
    with pytest.raises(InvalidSetting, match=r"\[hidden\] for .*jwks\.endpoint\.url") as refused:
        parse_broker({**LISTENERS, name: address}).sasl_of("EXTERNAL", Mechanism.OAUTHBEARER)
    assert "s3cret" not in str(refused.value)


def test_an_address_of_traces_with_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidSetting, match=r"\[hidden\] for .*tracing\.endpoint") as refused:
        parse_broker({"penstock.tracing.endpoint": "http://u:s3cret@h/v1/traces"})
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("address", ["file:///etc/keys@home", "https://h/keys?of=a@b"])
def test_an_address_of_keys_may_have_any_path(address: str) -> None:
    settings = parse_broker({"sasl.oauthbearer.jwks.endpoint.url": address})
    assert settings.sasl.sasl_oauthbearer_jwks_endpoint_url == address
