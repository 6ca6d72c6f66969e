"""confluent-kafka, and with it all that is built on librdkafka."""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer

from rig.logins.login import GIVE_UP_SECONDS, PATIENCE_SECONDS, Login


class ConfluentEntering:
    def round_trip(self, bootstrap: str, login: Login, topic: str) -> None:
        failures: list[KafkaError | None] = []
        producer = Producer(settings_of(bootstrap, login))
        producer.produce(topic, b"record", on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert failures == [None]
        consumer = Consumer(
            {
                **settings_of(bootstrap, login),
                "group.id": topic,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.subscribe([topic])
            [message] = consumer.consume(1, PATIENCE_SECONDS)
            assert (message.error(), message.value()) == (None, b"record")
        finally:
            consumer.close()

    def refusal(self, bootstrap: str, login: Login) -> str:
        failures: list[KafkaError] = []
        delivered: list[KafkaError] = []
        settings = {
            **settings_of(bootstrap, login),
            "error_cb": failures.append,
            "message.timeout.ms": GIVE_UP_SECONDS * 1000,
        }
        producer = Producer(settings)
        producer.produce("refused", b"record", on_delivery=lambda error, _: delivered.append(error))
        until = time.monotonic() + PATIENCE_SECONDS
        named: list[KafkaError] = []
        while not (named or delivered) and time.monotonic() < until:
            producer.poll(0.1)
            named = [one for one in failures if one.code() != KafkaError._ALL_BROKERS_DOWN]
        producer.purge()
        assert named or delivered, "neither delivered nor refused"
        first = (named or delivered)[0]
        return f"{first.name()}: {first.str()}"


def settings_of(bootstrap: str, login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": login.protocol,
        "log_level": 0,
    }
    if login.trusted is not None:
        settings["ssl.ca.location"] = str(login.trusted)
    if login.certificate is not None:
        settings["ssl.certificate.location"] = str(login.certificate.with_suffix(".crt"))
        settings["ssl.key.location"] = str(login.certificate.with_suffix(".key"))
    if login.mechanism is not None:
        settings["sasl.mechanism"] = login.mechanism
    if login.token is not None:
        token = login.token.read_text()
        settings["oauth_cb"] = lambda _: (token, time.time() + 300)
    elif login.mechanism is not None:
        settings |= {"sasl.username": login.user, "sasl.password": login.password}
    return settings
