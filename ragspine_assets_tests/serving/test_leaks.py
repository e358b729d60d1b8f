"""Pieces of closed texts in published bytes (SPEC 6.6)."""

import numpy as np
import pytest

from ragspine_assets.serving import leaks
from ragspine_assets_tests.conftest import Pipeline
from ragspine_assets_tests.documents.test_citations import CLOSED, KNOWN, SPELLINGS

ROWS = "doc_id,sensitivity\nhr/pay.txt,RESTRICTED\n"


@pytest.mark.parametrize("at_once", [1, 7, leaks.PIECE, 1 << 20])
def test_a_piece_is_found_wherever_blocks_begin(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    drawn = np.random.default_rng(4)
    data = drawn.integers(0, 4, 5 * leaks.PIECE, dtype=np.uint8).tobytes()
    everywhere = leaks._hashes(data)
    pieces = np.unique(np.concatenate([everywhere[::3], drawn.integers(0, 2**63, 50, dtype=np.uint64)]))
    monkeypatch.setattr(leaks, "_AT_ONCE", at_once)
    assert leaks._present(data, pieces).tolist() == np.intersect1d(everywhere, pieces).tolist()
    assert len(leaks._present(data[: leaks.PIECE], pieces)) == 1
    assert not len(leaks._present(data[: leaks.PIECE - 1], pieces))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_closed_document_is_seen(spelling: str) -> None:
    assert leaks.spells_closed(KNOWN, {CLOSED})(spelling)


@pytest.mark.parametrize(
    "citation", ["open/notes.txt", "open/notes.txt#para3", "notes.txt@v2#c1", "elsewhere.pdf", "hr"]
)
def test_the_id_of_an_open_document_and_other_names_are_not(citation: str) -> None:
    assert not leaks.spells_closed(KNOWN, {CLOSED})(citation)


def test_a_fact_that_cites_a_closed_document_explains_nothing(pipeline: Pipeline) -> None:
    pipeline.write({"hr/pay.txt": "Zanzibarquux earns 7.", "open.txt": "Nothing.", "metadata.csv": ROWS})
    pipeline.intake()
    with pipeline.store.connect() as connection:
        for source in ("hr/Pay.txt", "open.txt"):
            connection.execute(
                "INSERT INTO fact (metric_code, entity, source_doc_id, source_locator) VALUES ('M', 'E', ?, '#para1')",
                [source],
            )
        told = "".join(leaks._uncited(connection, "SELECT source_doc_id, source_locator FROM fact", {"hr/pay.txt"}))
    assert "open.txt" in told
    assert "Pay" not in told


@pytest.mark.parametrize(
    "citation", ["doc:0123456789ab", "DOC:0123456789AB@v1#c0", "(doc:0123456789ab)", "0123456789ab#para1"]
)
def test_the_reference_of_a_closed_document_names_it(citation: str) -> None:
    assert leaks.spells_closed(KNOWN, {CLOSED}, lambda _: "doc:0123456789ab")(citation)
    assert not leaks.spells_closed(KNOWN, {CLOSED}, lambda _: "doc:ba9876543210")(citation)
