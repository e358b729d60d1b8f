"""One document, read in this process (SPEC 1)."""

from pathlib import Path

from ragspine_assets.documents import Document


def test_a_file_becomes_a_document(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ntitle: T\n---\n# One\n\nText")
    document = Document.read(tmp_path, "a.md")
    assert (document.text, document.markup, document.status) == ("# One\n\nText", "markdown", "ingested")
    assert document.front_matter.values == {"title": "T"}
    assert "One" not in repr(document)


def test_a_bad_file_is_failed_and_no_exception(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"no pdf")
    assert Document.read(tmp_path, "a.pdf").status == "failed"
    assert Document.read(tmp_path, "missing.txt").reason
