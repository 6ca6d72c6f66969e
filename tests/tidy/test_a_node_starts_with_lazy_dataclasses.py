"""Modules that a node is made of declare values with the decorator that is cheap to import."""

import ast

from rig.source_tree import modules, parse, place

NODE_PACKAGES = (
    "model",
    "wire",
    "records",
    "world",
    "machine",
    "raft",
    "log",
    "metadata",
    "replication",
    "groups",
    "transactions",
    "security",
    "metrics",
    "alerts",
    "client",
    "broker",
    "node",
)


def test_modules_of_a_node_use_the_lazy_dataclass() -> None:
    faults = [
        place(path, node)
        for path in modules(*NODE_PACKAGES)
        if path.name != "lazy_dataclass.py"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(name.name == "dataclass" for name in node.names)
    ]
    remedy = "from penstock.model.lazy_dataclass import dataclass"
    assert not faults, f"`{remedy}` instead, which makes a start faster: {faults}"
