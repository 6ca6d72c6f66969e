"""A shared map is what a dict would be, and no change of it shows in an older one."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.image.shared_map import SharedMap, keys_beyond, shared

keys = st.one_of(st.integers(0, 2000).map(str), st.text(max_size=3))
steps = st.lists(
    st.tuples(st.dictionaries(keys, st.integers(), max_size=300), st.booleans()), max_size=8
)


@given(steps=steps, data=st.data())
def test_each_version_equals_the_dict_of_its_time(
    steps: list[tuple[dict[str, int], bool]], data: st.DataObject
) -> None:
    versions: list[tuple[SharedMap[str, int], dict[str, int]]] = [(shared(), {})]
    for values, removing in steps:
        latest, plain = versions[-1]
        gone: list[str] = []
        if removing and plain:
            gone = data.draw(st.lists(st.sampled_from(sorted(plain)), unique=True))
        after = {key: value for key, value in plain.items() if key not in gone} | values
        versions.append((latest.changed(values, without=gone), after))
    for version, plain in versions:
        version.check()
        assert version == plain
        assert len(version) == len(plain)
        assert list(version) == sorted(plain)
        assert list(version.items()) == sorted(plain.items())
        assert all(version[key] == version.get(key) == value for key, value in plain.items())
        version.check()
    for earlier, before in versions:
        for later, after in versions:
            assert keys_beyond(later, earlier) == sorted(set(after) - set(before))


def test_a_key_that_is_not_there_is_not_found() -> None:
    found = shared({"a": 1})
    assert "b" not in found
    assert found.get("b") is None
    assert found.get("b", 7) == 7


def test_what_changes_nothing_is_the_same_map() -> None:
    found = shared({"a": 1})
    assert found.changed({}) is found
    assert shared(found) is found


def test_one_change_leaves_nearly_all_of_the_map_shared() -> None:
    class Counted(str):
        """A key that counts how often a hash table compares or places it."""

        hashed = 0

        def __hash__(self) -> int:
            Counted.hashed += 1
            return super().__hash__()

        def __eq__(self, other: object) -> bool:
            return super().__eq__(other)

    many = shared({Counted(f"topic-{index}"): index for index in range(10_000)})
    before = Counted.hashed
    more = many.changed({Counted("another"): 1})
    assert len(more) == 10_001
    assert Counted.hashed - before < 10  # a copied bucket keeps the hashes that it has
