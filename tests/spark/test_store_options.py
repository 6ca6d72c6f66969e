"""The options of tables in object stores: names, files, placeholders, environment."""

from pathlib import Path

import pytest

from penstock.spark.tables.errors import StoreError
from penstock.spark.tables.store_options import store_options

TABLE = "s3://lake/orders"


def test_hadoops_names_are_understood_and_others_pass() -> None:
    told = {
        "fs.s3a.endpoint": "store.example:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-1",
        "fs.s3a.access.key": "me",
        "fs.s3a.secret.key": "mine",
        "fs.s3a.path.style.access": "true",
        "timeout": "10s",
    }
    assert store_options(TABLE, told, environment={}) == {
        "AWS_ENDPOINT_URL": "https://store.example:9000",
        "AWS_REGION": "eu-1",
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "mine",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        "timeout": "10s",
    }


def test_http_is_for_those_who_name_it() -> None:
    told = {"fs.s3a.endpoint": "http://store.example:9000"}
    assert store_options(TABLE, told, environment={})["AWS_ALLOW_HTTP"] == "true"
    named = {**told, "aws_allow_http": "false"}
    assert "AWS_ALLOW_HTTP" not in store_options(TABLE, named, environment={})


def test_an_option_precedes_the_file_and_the_file_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_SECRET", "mine")
    file = tmp_path / "lake.properties"
    file.write_text(
        "fs.s3a.endpoint=https://of-file\nfs.s3a.endpoint.region=of-file\n"
        "fs.s3a.access.key=me\nfs.s3a.secret.key=${env:LAKE_SECRET}\n"
    )
    environment = {
        "AWS_REGION": "of-environment",
        "AWS_SESSION_TOKEN": "of other keys",
        "AWS_ALLOW_HTTP": "false",
        "HOME": "/",
    }
    told = {"fs.s3a.endpoint.region": "told"}
    found = store_options(TABLE, told, config_file=str(file), environment=environment)
    assert found == {
        "AWS_ENDPOINT_URL": "https://of-file",
        "AWS_REGION": "told",
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "mine",
        "AWS_ALLOW_HTTP": "false",
    }


def test_keys_may_come_from_the_environment_alone() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "mine"}
    assert store_options(TABLE, None, environment=environment) == environment
    assert store_options("/lake/orders", None, environment=environment) == {}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"fs.s3a.endpont": "x"},
            "there is no option fs.s3a.endpont: did you mean fs.s3a.endpoint?",
        ),
        ({"fs.s3a.access.key": ""}, "option fs.s3a.access.key is empty"),
        ({"fs.s3a.path.style.access": "yes"}, "option fs.s3a.path.style.access is 'yes'"),
        ({"fs.s3a.attempts.maximum": "-1"}, "it must be a whole number"),
        ({"fs.s3a.secret.key": "${env:NOT_THERE}"}, "the environment has no such variable"),
        ({"aws_s3_allow_unsafe_rename": "true"}, "two drivers commit one version"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_in_one_line(told: dict[str, str], said: str) -> None:
    with pytest.raises(StoreError) as caught:
        store_options(TABLE, told, environment={})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"config_file: .*lake\.properties"):
        store_options(TABLE, None, config_file=str(tmp_path / "lake.properties"), environment={})
