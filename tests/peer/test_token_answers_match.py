"""Requests for delegation tokens are answered as by Apache Kafka, in the same order of checks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.wire.messages.create_delegation_token import (
    CreatableRenewer,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from penstock.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from rig.apache_kafka.broker import ApacheKafka
from rig.dialogue import Dialogue
from rig.held_port import HeldPort
from rig.running_node import RunningNode
from rig.tokens import (
    NAMES,
    create,
    describe,
    expire,
    kafka_settings_with_tokens,
    log_in_by_token,
    logged_in,
    renew,
    seen,
    settings_with_tokens,
)

Places = dict[str, str]  # addresses, by what they speak
Answers = list[object]
UNKNOWN = bytes(64)
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def places(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Places, Places]]:
    """Ours and Apache Kafka's, with an authorizer: only `User:admin` has rights."""
    rights = {
        "authorizer_class_name": STANDARD_AUTHORIZER,
        "super_users": "User:admin;User:ANONYMOUS",
    }
    port = HeldPort()
    theirs = ApacheKafka(
        jars=kafka_jars,
        folder=tmp_path_factory.mktemp("kafka"),
        settings=kafka_settings_with_tokens(**rights),
        listener=("SASL_PLAINTEXT", port.address),
    )
    theirs.start()
    ours = RunningNode(tmp_path_factory.mktemp("node"), settings_with_tokens(**rights))
    ours.start()
    by_listener = ours.node.addresses_by_listener
    yield (
        {name: str(by_listener[name]) for name in ("PLAINTEXT", "SASL_PLAINTEXT")},
        {"PLAINTEXT": theirs.bootstrap, "SASL_PLAINTEXT": port.address},
    )
    theirs.stop()
    ours.stop()


def created(talk: Dialogue, *renewers: str, **more: Any) -> CreateDelegationTokenResponse:
    """A token that the broker knows: Apache Kafka's hears of it after its reply."""
    made = create(talk, *renewers, **more)
    while made.token_id not in seen(talk):
        pass
    return made


def unauthenticated(place: Places) -> Answers:
    talk = Dialogue(place["PLAINTEXT"], "unused")
    answers = refusals(talk)
    talk.close()
    return answers


def refusals(talk: Dialogue) -> Answers:
    wrong = CreatableRenewer(principal_type="Group", principal_name="g")
    return [
        create(talk).error_code,
        create(talk, owner="bob").error_code,
        talk.exchange(CreateDelegationTokenRequest(renewers=[wrong]), version=3).error_code,
        renew(talk, UNKNOWN),
        expire(talk, UNKNOWN),
        describe(talk).error_code,
        talk.exchange(DescribeDelegationTokenRequest(owners=[]), version=1).error_code,
    ]


def wrong_requests(place: Places) -> Answers:
    talks = {name: logged_in(place["SASL_PLAINTEXT"], name) for name in NAMES}
    made = created(talks["alice"], "bob", lifetime_ms=100_000)
    answers: Answers = [
        made.error_code,
        made.max_timestamp_ms - made.issue_timestamp_ms,
        made.expiry_timestamp_ms - made.issue_timestamp_ms,
        (made.principal_type, made.principal_name),
        (made.token_requester_principal_type, made.token_requester_principal_name),
        len(made.token_id),
        len(made.hmac),
    ]
    wrong = CreatableRenewer(principal_type="Group", principal_name="g")
    for name, talk in talks.items():
        answers += [
            name,
            create(talk, owner="bob").error_code,
            talk.exchange(
                CreateDelegationTokenRequest(
                    owner_principal_type="User", owner_principal_name="bob", renewers=[wrong]
                ),
                version=3,
            ).error_code,
            talk.exchange(CreateDelegationTokenRequest(renewers=[wrong]), version=3).error_code,
            renew(talk, made.hmac, 60_000),
            expire(talk, made.hmac, 50_000),
            renew(talk, UNKNOWN),
            renew(talk, b""),
            expire(talk, UNKNOWN, 5),
        ]
    for version in (1, 2):
        for talk in talks.values():
            for request in (
                RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1),
                ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=20_000),
            ):
                answers.append(talk.exchange(request, version=version).error_code)
    answers.append([renew(talks["alice"], made.hmac, 0), expire(talks["bob"], made.hmac, 0)])
    for talk in talks.values():
        talk.close()
    return answers


def what_each_sees(place: Places) -> Answers:
    talks = {name: logged_in(place["SASL_PLAINTEXT"], name) for name in NAMES}
    made = [created(talks["alice"], "carol"), created(talks["admin"], owner="bob")]
    own = {one.token_id: index for index, one in enumerate(made)}
    answers: Answers = []
    for name, talk in talks.items():
        for owners in ((), ("alice",), ("bob", "carol"), ("admin",), ("nobody",)):
            shown = [one for one in describe(talk, *owners).tokens if one.token_id in own]
            answers.append((name, owners, sorted(own[one.token_id] for one in shown)))
            answers += [
                (one.principal_name, [who.principal_name for who in one.renewers])
                for one in sorted(shown, key=lambda one: own[one.token_id])
            ]
    for talk in talks.values():
        talk.close()
    return answers


def a_life_of_a_token(place: Places) -> Answers:
    address = place["SASL_PLAINTEXT"]
    alice = logged_in(address, "alice")
    made = created(alice)
    answers: Answers = []
    for mechanism in SCRAM:
        talk = log_in_by_token(address, made.token_id, made.hmac, mechanism)
        assert talk is not None
        answers += refusals(talk)
        talk.close()
        other = log_in_by_token(address, made.token_id, UNKNOWN, mechanism)
        answers.append(other is None)
    answers.append(expire(alice, made.hmac))
    while made.token_id in seen(alice):
        pass
    answers += [
        renew(alice, made.hmac),
        expire(alice, made.hmac),
        expire(alice, made.hmac, 10),
    ]
    alice.close()
    return answers


@pytest.mark.parametrize(
    "talk", [unauthenticated, wrong_requests, what_each_sees, a_life_of_a_token]
)
def test_the_answers_are_those_of_apache_kafka(places: tuple[Places, Places], talk: object) -> None:
    assert callable(talk)
    ours, theirs = places
    assert talk(ours) == talk(theirs)
