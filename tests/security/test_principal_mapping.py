"""`ssl.principal.mapping.rules`, as Apache Kafka documents and tests them."""

import pytest

from penstock.security.principal_mapping import NoRuleMatches, parse_rules, user_of

DOCUMENTED = r"""
 RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,
 RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,
 RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,
 DEFAULT
"""


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=JavaSoft", "javasoft"),
        ("OU=JavaUnit,O=Sun,C=US", "OU=JavaUnit,O=Sun,C=US"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(name: str, user: str) -> None:
    assert user_of(name, parse_rules(DOCUMENTED)) == user


def test_without_a_default_a_name_that_no_rule_matches_is_refused() -> None:
    rules = parse_rules("RULE:^CN=(.*?),OU=A$/$1/")
    with pytest.raises(NoRuleMatches, match="CN=x,OU=B"):
        user_of("CN=x,OU=B", rules)


def test_no_rules_are_the_default() -> None:
    assert user_of("CN=x", parse_rules("")) == "CN=x"
    assert user_of("CN=x", parse_rules("DEFAULT")) == "CN=x"


def test_a_rule_may_write_upper_case_escaped_slashes_commas_and_named_groups() -> None:
    rules = parse_rules(r"RULE:^CN=(?<who>[a-z]+),O=a\/b$/${who}\/$1, Inc/U, DEFAULT")
    assert user_of("CN=abc,O=a/b", rules) == "ABC/ABC, INC"
    assert user_of("CN=abc,O=c", rules) == "CN=abc,O=c"


@pytest.mark.parametrize(
    "text",
    [
        "deault",
        "RULE:CN=(.*?)/$1",
        "RULE:^CN=(.*?)$/$1/LU",
        "RULE:^CN=(.*?$/$1/",
        "RULE:^CN=(.*)$/$2/",
        "DEFAULT RULE:^CN=(.*)$/$1/",
        "RULE:^CN=(.*)$/${who}/",
    ],
)
def test_a_text_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"RULE|regular expression|group"):
        parse_rules(text)
