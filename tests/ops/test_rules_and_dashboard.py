"""Alerts say what to do, and the dashboard can be imported; foreign checks where they are found."""

import re
import shutil
import subprocess

import pytest
import yaml

from rig.command_lines import found
from rig.ops_files import OPS, alerts, dashboard
from rig.source_tree import ROOT

PAGE = re.compile(r"(docs/[a-z-]+\.md)#([a-z-]+)")
COMMAND = re.compile(r"`penstock ([a-z]+) ([a-z-]+)`")
COLUMNS = 24


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9-]", "", one.lower().replace(" ", "-")) for one in headings}


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    every = alerts()
    assert len({rule["alert"] for rule in every}) == len(every) >= 11
    for rule in every:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule["for"]), rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        notes = rule["annotations"]
        assert notes.keys() == {"summary", "description", "action", "runbook"}
        assert all(note and "\n" not in note for note in notes.values()), rule["alert"]


def test_every_alert_links_to_a_section_that_is_there() -> None:
    for rule in alerts():
        link = PAGE.fullmatch(rule["annotations"]["runbook"])
        assert link is not None, rule["alert"]
        assert link[2] in anchors(link[1]), rule["alert"]


def test_every_command_that_is_advised_is_there() -> None:
    advised = [
        named for rule in alerts() for named in COMMAND.findall(rule["annotations"]["action"])
    ]
    assert len(advised) > 8
    for noun, verb in advised:
        found([noun, verb])


def test_the_guide_lists_the_alerts() -> None:
    guide = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    rows = re.findall(
        r"^\| `(Penstock\w+)` \| (\w+) \| ([\w ]+) \| \[.*\]\((.*)\) \|$", guide, re.MULTILINE
    )
    assert rows == [
        (
            rule["alert"],
            rule["labels"]["severity"],
            "at once" if rule["for"] == "0m" else rule["for"],
            rule["annotations"]["runbook"].removeprefix("docs/"),
        )
        for rule in alerts()
    ]


def test_files_and_sections_that_the_guide_names_are_there() -> None:
    guide = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    files = set(re.findall(r"\bops/[\w./*-]+", guide))
    assert len(files) > 5
    assert [name for name in files if not list(ROOT.glob(name.rstrip("/.")))] == []
    for page, section in re.findall(r"\]\(([a-z-]+\.md)#?([a-z-]*)\)", guide):
        assert not section or section in anchors(f"docs/{page}"), (page, section)


def test_the_example_scrapes_three_nodes_and_loads_the_rules() -> None:
    folder = OPS / "prometheus"
    example = yaml.safe_load((folder / "prometheus.yml").read_text("utf-8"))
    assert all((folder / name).is_file() for name in example["rule_files"])
    [job] = example["scrape_configs"]
    [static] = job["static_configs"]
    assert len(static["targets"]) == 3
    [down] = [rule for rule in alerts() if rule["alert"] == "PenstockNodeDown"]
    pattern = re.search(r'job=~"([^"]+)"', down["expr"])
    assert pattern is not None
    assert re.fullmatch(pattern[1], job["job_name"])


def test_promtool_takes_both() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    for check, file in (("rules", "rules.yml"), ("config", "prometheus.yml")):
        command = [promtool, "check", check, str(OPS / "prometheus" / file)]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_panels_have_ids_places_and_queries_of_their_own() -> None:
    board = dashboard()
    assert board["schemaVersion"] >= 38  # that of Grafana 10
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    rows = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert rows == [
        "Nodes",
        "Health of partitions",
        "Throughput",
        "Requests",
        "Groups",
        "Transactions",
        "Quorum",
        "Process",
    ]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= COLUMNS, panel["title"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(letters)) == len(letters)
        assert bool(letters) == (panel["type"] != "row"), panel["title"]


def test_the_dashboard_is_of_no_one_installation() -> None:
    """Its data source and its cluster are chosen where it is imported."""
    board = dashboard()
    assert {one["name"] for one in board["templating"]["list"]} == {"datasource", "job"}
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            names = re.findall(r"\b(?:kafka|penstock|process|python)_\w+|\bup\b", target["expr"])
            assert names
            assert target["expr"].count('{job="$job"}') == len(names), panel["title"]
