"""Secrets of a file of settings come from elsewhere, or one line says why they do not."""

from pathlib import Path

import pytest

from penstock.model.settings.setting import InvalidSetting
from penstock.world.placeholders import Unresolved, resolved_settings

KAFKAS = "org.apache.kafka.common.config.provider."
NAME = "ssl.key.password"


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET", "of the environment")
    (tmp_path / "secrets.properties").write_text("key=of the file\n")
    (tmp_path / "mounted").write_text("of the directory\n")


def value_of(value: str, tmp_path: Path, **declared: str) -> str:
    values = {name.replace("_", "."): text for name, text in declared.items()}
    return resolved_settings({**values, NAME: value.replace("DIR", str(tmp_path))})[NAME]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("${env:PENSTOCK_SECRET}", "of the environment"),
        ("${file:DIR/secrets.properties:key}", "of the file"),
        ("${directory:DIR:mounted}", "of the directory"),
        ("a ${env:PENSTOCK_SECRET} b ${directory:DIR:mounted}", "a of the environment b of the"),
        ("$1 ${} ${PENSTOCK_SECRET} ${vault:a:b}", "$1 ${} ${PENSTOCK_SECRET} ${vault:a:b}"),
    ],
)
def test_a_placeholder_is_replaced_where_there_is_a_provider(
    value: str, found: str, tmp_path: Path
) -> None:
    assert value_of(value, tmp_path).startswith(found)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("${env:NOWHERE}", "the environment has no such variable"),
        ("${env:}", "the environment has no such variable"),
        ("${file:DIR/nowhere:key}", "No such file or directory"),
        ("${file:DIR/secrets.properties:other}", "the file has no property other"),
        ("${file:DIR/mounted:key}", "the file has no property key"),
        ("${file:key}", "Is a directory"),
        ("${directory:DIR:nowhere}", "No such file or directory"),
        ("${directory:DIR:no\0where}", "no file has such a name"),
        ("${directory:DIR:../x}", "after the directory comes the name of a file in it"),
        ("${directory:DIR:}", "Is a directory"),
    ],
)
def test_what_is_missing_is_one_line_with_the_setting_and_the_placeholder(
    value: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(Unresolved) as refused:
        value_of(value, tmp_path)
    expected = value.replace("DIR", str(tmp_path))
    assert str(refused.value) == f"{NAME}: {expected}: {reason}"


def test_a_file_that_cannot_be_read_is_refused_without_what_stands_in_it(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("=s3cret\n")
    (tmp_path / "binary").write_bytes(b"s3cret\xff")
    for value in ("${file:DIR/broken:key}", "${directory:DIR:binary}"):
        with pytest.raises(Unresolved) as refused:
            value_of(value, tmp_path)
        assert "s3cret" not in str(refused.value)


def test_providers_have_the_names_and_bounds_that_the_settings_give_them(tmp_path: Path) -> None:
    given = {
        "config.providers": "variables, mine",
        "config.providers.variables.class": f"{KAFKAS}EnvVarConfigProvider",
        "config.providers.variables.param.allowlist.pattern": "PENSTOCK_.*",
        "config.providers.mine.class": f"{KAFKAS}DirectoryConfigProvider",
        "config.providers.mine.param.allowed.paths": f"/nowhere,{tmp_path}",
    }

    def found(value: str) -> str:
        return resolved_settings({**given, NAME: value})[NAME]

    assert found("${variables:PENSTOCK_SECRET}") == "of the environment"
    assert found(f"${{mine:{tmp_path}:mounted}}") == "of the directory"
    with pytest.raises(Unresolved, match=r"allowlist\.pattern leaves this variable out"):
        found("${variables:HOME}")
    for outside in ("/etc", f"{tmp_path}/..", f"{tmp_path}-other"):
        with pytest.raises(Unresolved, match=r"allowed\.paths leave this path out"):
            found(f"${{mine:{outside}:hostname}}")


@pytest.mark.parametrize(
    "place",
    [
        "directory:DIR/inside:../mounted",
        "directory:DIR/inside:DIR/mounted",
        "directory:DIR/inside/link/..:mounted",
        "file:DIR/inside/link/../secrets.properties:key",
    ],
)
def test_nothing_outside_the_allowed_paths_is_read(place: str, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "other")
    name, _, _ = place.partition(":")
    given = {
        "config.providers": name,
        f"config.providers.{name}.class": f"{KAFKAS}{name.title()}ConfigProvider",
        f"config.providers.{name}.param.allowed.paths": f"{tmp_path}/inside",
        NAME: f"${{{place}}}".replace("DIR", str(tmp_path)),
    }
    with pytest.raises(Unresolved):
        resolved_settings(given)


def test_a_provider_that_is_not_here_is_refused_where_it_is_used(tmp_path: Path) -> None:
    given = {
        "config.providers": "vault",
        "config.providers.vault.class": "com.example.Vault",
        NAME: "${env:PENSTOCK_SECRET}",
    }
    assert resolved_settings(given)[NAME] == "of the environment"
    with pytest.raises(Unresolved, match=r"no provider com\.example\.Vault, only .*EnvVar"):
        resolved_settings({**given, NAME: "${vault:a:b}"})


def test_a_pattern_that_is_none_is_refused() -> None:
    given = {
        "config.providers": "env",
        "config.providers.env.class": f"{KAFKAS}EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "(",
    }
    with pytest.raises(InvalidSetting, match=r"config\.providers\.env\.param\.allowlist\.pattern"):
        resolved_settings(given)
