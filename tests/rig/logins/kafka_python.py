"""kafka-python."""

from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

from rig.logins.login import GIVE_UP_SECONDS, PATIENCE_SECONDS, Heard, Login, older_tls


class KafkaPythonEntering:
    def round_trip(self, bootstrap: str, login: Login, topic: str) -> None:
        producer = KafkaProducer(**settings_of(bootstrap, login))
        try:
            producer.send(topic, b"record").get(PATIENCE_SECONDS)
        finally:
            producer.close()
        consumer = KafkaConsumer(
            topic,
            **settings_of(bootstrap, login),
            group_id=topic,
            auto_offset_reset="earliest",
            consumer_timeout_ms=PATIENCE_SECONDS * 1000,
        )
        try:
            assert next(iter(consumer)).value == b"record"
        finally:
            consumer.close()

    def refusal(self, bootstrap: str, login: Login) -> str:
        patience_ms = GIVE_UP_SECONDS * 1000
        with Heard("kafka") as heard:
            try:
                producer = KafkaProducer(
                    **settings_of(bootstrap, login),
                    bootstrap_timeout_ms=patience_ms,
                    max_block_ms=patience_ms,
                )
            except KafkaError as refused:
                return heard.with_error(refused)
        producer.close(timeout=0)
        raise AssertionError("not refused")


def settings_of(bootstrap: str, login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": login.protocol,
    }
    if login.tls_version is not None:
        settings["ssl_context"] = older_tls(login)
    elif login.trusted is not None:
        settings["ssl_cafile"] = str(login.trusted)
    if login.certificate is not None:
        settings["ssl_certfile"] = str(login.certificate.with_suffix(".crt"))
        settings["ssl_keyfile"] = str(login.certificate.with_suffix(".key"))
    if login.mechanism is not None:
        settings["sasl_mechanism"] = login.mechanism
    if login.token is not None:
        settings["sasl_oauth_token_provider"] = TokenOfFile(login.token.read_text())
    elif login.mechanism is not None:
        settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    return settings


class TokenOfFile(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token
