"""How many rows of the shop must be out before its proof can hold. Pure.

The proof looks at every record, in the process that measures. These counts say that it would fail,
at no cost. They are necessary, not sufficient.
"""

from collections.abc import Iterable, Mapping

from penstock.spark.pipelines.commerce import names
from penstock.spark.pipelines.commerce.proof import OUTPUTS, Finding


def may_be_all(sent: Mapping[str, int], found: Mapping[str, int]) -> bool:
    """Every order is in fulfilment and analytics and every payment in the ledger, unless it is a
    dead letter. Both are counts by topic.
    """
    orders, payments = sent.get(names.ORDERS, 0), sent.get(names.PAYMENTS, 0)
    letters = found[names.DEAD_LETTERS]
    routed = found[names.FULFILMENT] + found[names.LEDGER] + letters
    return routed >= orders + payments and found[names.ANALYTICS] + letters >= orders


def rows_least(rows: int, findings: Iterable[Finding]) -> int:
    """So many rows there must be before a proof can hold, by what it found among `rows`: one more
    for each record that is missing and each key in a wrong state. The table's are no rows here.
    """
    return rows + sum(one.missing + one.wrong for one in findings if one.what in OUTPUTS)
