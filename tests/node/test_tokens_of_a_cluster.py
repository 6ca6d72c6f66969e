"""Delegation tokens on several nodes: whoever is asked, the controller decides, all let them in."""

import asyncio
from pathlib import Path

from penstock.model.error import ErrorCode
from rig.node_cluster import NodeCluster
from rig.sasl import plain_users
from rig.tokens import (
    MECHANISMS,
    SECRET,
    USERS,
    create,
    describe,
    expire,
    log_in_by_token,
    logged_in,
    renew,
    seen,
)

LISTENERS = ("plaintext", "controller")  # names of the layout, whatever they speak
NUMBERS = (1, 2, 3)


def cluster_with_tokens(path: Path) -> NodeCluster:
    jaas = plain_users(USERS, own="admin")
    cluster = NodeCluster(path, 3)
    cluster.change_settings(
        {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "delegation.token.secret.key": SECRET,
            "metadata.log.max.record.bytes.between.snapshots": "1",
            **{f"listener.name.{name}.plain.sasl.jaas.config": jaas for name in LISTENERS},
        }
    )
    return cluster


def enters(address: str, token_id: str, mac: bytes) -> bool:
    """Whether a token is let in. If so, it may ask for topics, and not for tokens."""
    talk = log_in_by_token(address, token_id, mac, "SCRAM-SHA-512")
    if talk is None:
        return False
    codes = {create(talk).error_code, renew(talk, mac), describe(talk).error_code}
    assert codes == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    talk.close()
    return True


def test_a_token_that_one_node_is_asked_for_counts_at_all_and_survives_them(
    tmp_path: Path,
) -> None:
    def by_all_users(addresses: list[str]) -> list[tuple[str, bytes]]:
        """A token of each node; alice owns them, and bob may renew them."""
        made = []
        for address in addresses:
            talk = logged_in(address, "alice")
            reply = create(talk, "bob")
            assert (reply.error_code, reply.principal_name) == (ErrorCode.NONE, "alice")
            assert reply.token_id in seen(talk), "a node knows what it has said"
            made.append((reply.token_id, bytes(reply.hmac)))
            talk.close()
        for address in addresses:
            for name, expected in (
                ("bob", ErrorCode.NONE),
                ("carol", ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
            ):
                talk = logged_in(address, name)
                assert [renew(talk, mac) for _, mac in made] == [expected] * len(made)
                talk.close()
        return made

    def after_restart(addresses: list[str], made: list[tuple[str, bytes]]) -> None:
        kept, (gone_id, gone_mac) = made[:-1], made[-1]
        talk = logged_in(addresses[0], "bob")
        assert expire(talk, gone_mac) == ErrorCode.NONE
        talk.close()
        for address in addresses:
            talk = logged_in(address, "admin")
            while gone_id in seen(talk):
                pass  # until this one has heard of it
            assert seen(talk) == {token_id for token_id, _ in kept}
            talk.close()
            assert all(enters(address, token_id, mac) for token_id, mac in kept)
            assert not enters(address, gone_id, gone_mac)

    async def scenario() -> None:
        cluster = cluster_with_tokens(tmp_path)
        await cluster.start(*NUMBERS)
        try:
            addresses = [str(cluster.address(number)) for number in NUMBERS]
            made = await asyncio.to_thread(by_all_users, addresses)
            for number in NUMBERS:
                await cluster.kill(number)
            await cluster.start(*NUMBERS)
            await cluster.until(lambda image: len(image.delegation_tokens) == len(made))
            addresses = [str(cluster.address(number)) for number in NUMBERS]
            await asyncio.to_thread(after_restart, addresses, made)
        finally:
            for number in list(cluster.running):
                await cluster.kill(number)

    asyncio.run(scenario())
