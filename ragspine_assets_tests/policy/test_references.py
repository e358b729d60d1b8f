import re

import pytest

from ragspine_assets.policy import document_reference

KEY = b"k" * 32


def test_a_reference_is_twelve_hex_digits_and_not_the_name():
    assert re.fullmatch("doc:[0-9a-f]{12}", document_reference("board/minutes.md", KEY))


def test_a_reference_depends_on_the_document_and_on_the_key():
    references = {
        document_reference(doc_id, key) for doc_id in ("a", "b") for key in (KEY, b"l" * 32, b"k" * 100, b"k" * 101)
    }
    assert len(references) == 8
    assert document_reference("a", KEY) == document_reference("a", KEY)


def test_any_name_has_a_reference():
    assert document_reference("报告\ud800\n", KEY).startswith("doc:")


def test_a_key_short_enough_to_be_tried_out_is_refused():
    with pytest.raises(ValueError, match="16 bytes"):
        document_reference("a", b"short")
