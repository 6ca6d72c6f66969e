"""Numbers of the protocol have one definition, which every layer imports."""

import ast
from collections import defaultdict

from rig.source_tree import modules, parse, place


def test_no_two_enumerations_of_numbers_have_the_same_name() -> None:
    places = defaultdict(list)
    for path in modules():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef) and "IntEnum" in map(ast.unparse, node.bases):
                places[node.name].append(place(path, node))
    faults = {name: found for name, found in places.items() if len(found) > 1}
    assert "ErrorCode" in places
    assert not faults, f"defined more than once: {faults}"
