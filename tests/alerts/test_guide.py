"""docs/alerts.md has every alert, with what the rule itself says."""

from typing import Any

import pytest

from penstock.alerts.rule import Rule, Scope, Side, Unit
from penstock.alerts.rules import MESSAGE_RATE, RULES
from rig.ops_files import alerts
from rig.source_tree import ROOT

PAGE = (ROOT / "docs" / "alerts.md").read_text("utf-8")
WORDS = {0: "at once", 60_000: "1 min", 300_000: "5 min", 600_000: "10 min", 3_600_000: "1 h"}


def row_of(rule: Rule) -> str:
    threshold = f"{rule.threshold:g}"
    match rule.unit:
        case Unit.SECONDS:
            threshold = (
                f"{rule.threshold / 86_400:g} days"
                if rule.threshold >= 86_400
                else f"{rule.threshold:g} s"
            )
        case Unit.MILLISECONDS:
            threshold = f"{rule.threshold:g} ms"
        case Unit.RATIO:
            threshold = f"{rule.threshold:.0%}".replace("%", " %")
        case Unit.PER_SECOND:
            assert rule is MESSAGE_RATE
            threshold = "the setting"
    side = "below" if rule.side is Side.BELOW else "above"
    by = "the active controller" if rule.scope is Scope.CLUSTER else "each node"
    return (
        f"| `{rule.name}` | {rule.severity.value} | {by} | {rule.subject or '-'} |"
        f" {side} {threshold} | {WORDS[rule.fires_after_ms]} | {WORDS[rule.clears_after_ms]} |"
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_an_alert_has_a_row_and_a_section_with_what_to_do(rule: Rule) -> None:
    assert row_of(rule) in PAGE.splitlines()
    section = f"### {rule.name}\n\n{rule.means}\n\n**What to do:** {rule.action}\n"
    assert section in PAGE, section


OF_PROMETHEUS = [one for one in alerts() if one["alert"] not in {rule.name for rule in RULES}]


@pytest.mark.parametrize("rule", OF_PROMETHEUS, ids=lambda rule: rule["alert"])
def test_an_alert_of_prometheus_alone_has_a_section_with_what_to_do(rule: dict[str, Any]) -> None:
    notes = rule["annotations"]
    description, action = notes["description"], notes["action"]
    section = f"### {rule['alert']}\n\n{description}\n\n**What to do:** {action}\n"
    assert section in PAGE, section
