"""aiokafka."""

import asyncio
import contextlib
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from aiokafka.helpers import create_ssl_context

from rig.logins.login import GIVE_UP_SECONDS, PATIENCE_SECONDS, Heard, Login, older_tls


class AioKafkaEntering:
    def round_trip(self, bootstrap: str, login: Login, topic: str) -> None:
        async def scenario() -> None:
            async with AIOKafkaProducer(**settings_of(bootstrap, login)) as producer:
                await producer.send_and_wait(topic, b"record")
            consumer = AIOKafkaConsumer(
                topic,
                **settings_of(bootstrap, login),
                group_id=topic,
                auto_offset_reset="earliest",
            )
            async with consumer:
                assert (await consumer.getone()).value == b"record"

        asyncio.run(asyncio.wait_for(scenario(), PATIENCE_SECONDS))

    def refusal(self, bootstrap: str, login: Login) -> str:
        async def scenario() -> str:
            try:
                producer = AIOKafkaProducer(
                    **settings_of(bootstrap, login), request_timeout_ms=GIVE_UP_SECONDS * 1000
                )
            except ValueError as refused:  # of a setting, by the client itself
                return f"ValueError: {refused}"
            try:
                with Heard("aiokafka") as heard:
                    await producer.start()
            except KafkaError as refused:
                return heard.with_error(refused)
            finally:
                with contextlib.suppress(KafkaError):
                    await producer.stop()
            raise AssertionError("not refused")

        return asyncio.run(asyncio.wait_for(scenario(), PATIENCE_SECONDS))


def settings_of(bootstrap: str, login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": login.protocol,
    }
    if login.tls_version is not None:
        settings["ssl_context"] = older_tls(login)
    elif login.trusted is not None:
        own = login.certificate
        settings["ssl_context"] = create_ssl_context(
            cafile=str(login.trusted),
            certfile=None if own is None else str(own.with_suffix(".crt")),
            keyfile=None if own is None else str(own.with_suffix(".key")),
        )
    if login.mechanism is not None:
        settings["sasl_mechanism"] = login.mechanism
    if login.token is not None:
        settings["sasl_oauth_token_provider"] = TokenOfFile(login.token.read_text())
    elif login.mechanism is not None:
        settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    return settings


class TokenOfFile(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token
