"""Ids of 16 bytes, and the text that people see."""

from uuid import UUID

from penstock.model.identity import id_bytes, id_text, random_id


def test_a_new_id_is_a_random_uuid_that_no_command_line_takes_for_an_option() -> None:
    drawn = [b"\xfb" * 16, bytes(range(16))]
    made = random_id(lambda count: drawn.pop(0)[:count])
    assert drawn == []
    assert id_text(b"\xfb" * 16).startswith("-")
    assert UUID(bytes=made).version == 4
    assert id_bytes(id_text(made)) == made
