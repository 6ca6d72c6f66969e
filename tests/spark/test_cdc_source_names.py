"""What a capture is called in the database follows from the prefix of its topics."""

from itertools import combinations

import pytest

from penstock.spark.pipelines.cdc.source import slot_name, source_of

IDENTIFIER_LENGTH_MAX = 63  # of PostgreSQL, which cuts longer ones off
LONG = "x" * 60
PREFIXES = ["shop.a", "shop-a", "shop_a", "Shop_a", LONG, LONG + "y"]


def name_of(prefix: str) -> str:
    return source_of("dbname=shop", ["products"], prefix=prefix).name


def test_a_plain_prefix_is_the_name() -> None:
    assert name_of("shop_2") == "penstock_shop_2"


@pytest.mark.parametrize(("one", "other"), list(combinations(PREFIXES, 2)))
def test_no_two_prefixes_share_a_name(one: str, other: str) -> None:
    assert name_of(one) != name_of(other)


@pytest.mark.parametrize("prefix", ["shop.a", LONG, f"Shop.{LONG}"])
def test_postgresql_takes_the_names_as_they_are(prefix: str) -> None:
    source = source_of("dbname=shop", ["products"], prefix=prefix)
    slot = f"{slot_name(source, 'cluster')}_rows"
    assert len(slot) <= IDENTIFIER_LENGTH_MAX
    assert slot.replace("_", "").isalnum() and slot == slot.lower()
