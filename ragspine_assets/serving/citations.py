"""What may be shown of the store to somebody who asks for one chunk by name (SPEC 6.7): the exit of `ragspine show`."""

from __future__ import annotations

from collections.abc import Iterable

from ragspine_assets.policy import Sensitivity, document_reference, read_label
from ragspine_assets.retrieval.narrative_index import servable_label
from ragspine_assets.serving.snapshot import citations
from ragspine_assets.store import ChunkStore, StoredChunk
from ragspine_assets.store.references import reference_key


def cited_chunk(store: ChunkStore, citation: str, *, max_label: str = Sensitivity.CONFIDENTIAL) -> StoredChunk | None:
    """Return the chunk that a citation or a ``chunk_id`` names, from any version that the store keeps.

    What is above ``max_label``, or was never there, gives None alike: the answer does not tell which.

    Args:
        store: the chunk store.
        citation: ``{doc_id}@v{version}#c{seq}``, or ``{doc_id}#c{seq}`` for the version that counts.
        max_label: highest label of a chunk, and of its document now.

    Raises:
        ValueError: ``max_label`` is RESTRICTED or no label.
    """
    limit = servable_label(max_label)
    with store.connect() as connection:
        for doc_id, version, seq in citations(citation):
            if version is None:
                live = connection.execute(
                    "SELECT max(version) FROM narrative_chunk WHERE doc_id = ? AND active", [doc_id]
                ).fetchall()
                version = live[0][0]
            chunk = store.resolve(f"{doc_id}@v{version}#c{seq}") if version is not None else None
            if chunk is None:
                continue
            labels = connection.execute(
                "SELECT sensitivity FROM document WHERE doc_id = $id "
                "UNION SELECT sensitivity FROM narrative_chunk WHERE doc_id = $id AND active",
                {"id": doc_id},
            ).fetchall()
            if all(read_label(label) <= limit for label in [chunk.sensitivity, *(row[0] for row in labels)]):
                return chunk
    return None


def revealed(store: ChunkStore, references: Iterable[str]) -> dict[str, str | None]:
    """Return which document each ``doc:`` reference of a log or of metadata stands for; None where it is none here.

    For whoever may read the store itself: the names may be those of RESTRICTED documents.
    """
    with store.connect() as connection:
        key = reference_key(connection)
        names = connection.execute(
            "SELECT doc_id FROM document UNION SELECT doc_id FROM narrative_chunk ORDER BY 1"
        ).fetchall()
    by_reference = {document_reference(doc_id, key): doc_id for (doc_id,) in names}
    return {reference: by_reference.get(reference) for reference in references}
