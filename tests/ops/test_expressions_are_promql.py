"""Prometheus' own grammar takes every expression, as the parser of promql-parser has it."""

import promql_parser
import pytest

from rig.ops_files import Expression, expressions


@pytest.mark.parametrize("expression", expressions(), ids=lambda one: one.place)
def test_it_is_parsed(expression: Expression) -> None:
    promql_parser.parse(expression.text.replace("$__rate_interval", "5m"))


@pytest.mark.parametrize("text", ["sum by job (up)", "rate(up)", "up[5m] > 0", "rates(up[5m])"])
def test_what_prometheus_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        promql_parser.parse(text)
