"""The notebook of examples/ runs from its first cell to its last."""

import pytest
from pyspark.sql import SparkSession

from rig.clients.confluent import ConfluentClient
from rig.notebook import code_cells, run_notebook
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.source_tree import ROOT

NOTEBOOK = ROOT / "examples" / "orders_to_totals.ipynb"
GUIDE = ROOT / "docs" / "spark-deployment.md"


def test_cells_lead_from_orders_to_totals(
    spark: SparkSession,
    node: ServedNode,
    confluent: ConfluentClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("notebook.orders", "notebook.totals"):
        confluent.create_topic(name)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", node.bootstrap)
    names = run_notebook(NOTEBOOK)
    assert sorted(map(tuple, names["read"].collect())) == [("ann", 3), ("ann", 4), ("bob", 5)]
    written = committed_records(node.bootstrap, "notebook.totals")
    assert sorted((one.key, one.value) for one in written) == [(b"ann", b"7"), (b"bob", b"5")]


def test_it_is_kept_without_results_and_named_in_the_guide() -> None:
    assert [cell["id"] for cell in code_cells(NOTEBOOK) if cell["outputs"]] == []
    assert f"examples/{NOTEBOOK.name}" in GUIDE.read_text("utf-8")
