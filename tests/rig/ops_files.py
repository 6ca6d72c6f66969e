"""The files in ops/, as their users read them: alerts, panels, manifests."""

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

from rig.source_tree import ROOT

OPS = ROOT / "ops"
LEGEND_LABEL = re.compile(r"{{\s*(\w+)\s*}}")
ANNOTATION_LABEL = re.compile(r"\$labels\.(\w+)")
VARIABLE_QUERY = re.compile(r"label_values\((\w+), (\w+)\)")


@dataclass(frozen=True, kw_only=True)
class Expression:
    """One of a rule or a panel, with the labels that its text shows of the result."""

    place: str
    text: str
    shown: frozenset[str]


def alerts() -> list[dict[str, Any]]:
    read = yaml.safe_load((OPS / "prometheus" / "rules.yml").read_text("utf-8"))
    return [rule for group in read["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    read = json.loads((OPS / "grafana" / "penstock.json").read_text("utf-8"))
    assert isinstance(read, dict)
    return read


def manifests() -> list[dict[str, Any]]:
    files = sorted((OPS / "kubernetes").glob("*.yaml"))
    return [one for file in files for one in yaml.safe_load_all(file.read_text("utf-8"))]


def manifest(kind: str, name: str = "penstock") -> dict[str, Any]:
    [found] = [
        one for one in manifests() if one["kind"] == kind and one["metadata"]["name"] == name
    ]
    return found


def expressions() -> list[Expression]:
    """All of the rules and of the dashboard."""
    found = [
        Expression(
            place=rule["alert"],
            text=rule["expr"],
            shown=frozenset(ANNOTATION_LABEL.findall(" ".join(rule["annotations"].values()))),
        )
        for rule in alerts()
    ]
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            legend = frozenset(LEGEND_LABEL.findall(target["legendFormat"]))
            found.append(Expression(place=panel["title"], text=target["expr"], shown=legend))
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            query = VARIABLE_QUERY.fullmatch(variable["query"]["query"])
            assert query is not None, variable
            text = f"max by ({query[2]}) ({query[1]})"
            found.append(Expression(place=variable["name"], text=text, shown=frozenset()))
    return found
