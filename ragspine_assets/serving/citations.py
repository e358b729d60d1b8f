"""What may be shown of the store to somebody who asks for one chunk by name (SPEC 6.7): the exit of `ragspine show`."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from ragspine_assets.documents.frontmatter import stored_front_matter
from ragspine_assets.documents.metadata import MetadataTable, resolve_metadata
from ragspine_assets.policy import (
    FileLabels,
    Sensitivity,
    SensitivityPolicy,
    document_reference,
    explain_sensitivity,
    read_label,
)
from ragspine_assets.retrieval.narrative_index import servable_label
from ragspine_assets.serving.snapshot import citations
from ragspine_assets.store import ChunkStore, StoredChunk
from ragspine_assets.store.references import reference_key


def cited_chunk(
    store: ChunkStore,
    citation: str,
    *,
    max_label: str = Sensitivity.CONFIDENTIAL,
    policy: SensitivityPolicy | None = None,
    metadata: MetadataTable | None = None,
) -> StoredChunk | None:
    """Return the chunk that a citation or a ``chunk_id`` names, from any version that the store keeps.

    What is above ``max_label``, or was never there, gives None alike: the answer does not tell which. An old version is
    judged by the rules of this moment too: by what it says, and by what the document says now.

    Args:
        store: the chunk store.
        citation: ``{doc_id}@v{version}#c{seq}``, or ``{doc_id}#c{seq}`` for the version that counts.
        max_label: highest label of a chunk, and of its document now.
        policy: the policy of now; without one only the labels that are stored count.
        metadata: the rows of ``metadata.csv`` of now.

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
            stored = connection.execute(
                "SELECT sensitivity FROM document WHERE doc_id = $id "
                "UNION SELECT sensitivity FROM narrative_chunk WHERE doc_id = $id AND active",
                {"id": doc_id},
            ).fetchall()
            labels = [read_label(label) for label in [chunk.sensitivity, *(row[0] for row in stored)]]
            if policy is not None:
                labels += _labels_by(policy, metadata or MetadataTable(), connection, chunk)
            if all(label <= limit for label in labels):
                return chunk
    return None


def _labels_by(
    policy: SensitivityPolicy, metadata: MetadataTable, connection: duckdb.DuckDBPyConnection, chunk: StoredChunk
) -> list[Sensitivity]:
    """Return what policy and ``metadata.csv`` say of the version of a chunk, and of its document as it is now."""
    rows = connection.execute(
        "SELECT text, char_start, char_end FROM narrative_chunk WHERE doc_id = ? AND version = ? ORDER BY seq",
        [chunk.doc_id, chunk.version],
    ).fetchall()
    now = connection.execute(
        "SELECT front_matter, front_matter_problem, file_title, coalesce(t.text, ''), coalesce(r.file_labels, '') "
        "FROM document LEFT JOIN document_text t USING (doc_id) LEFT JOIN document_reading r USING (doc_id) "
        "WHERE doc_id = ? AND status != 'removed'",
        [chunk.doc_id],
    ).fetchall()
    said = "\n".join(
        str(getattr(chunk, name)) for name in ("title", "topic", "entity", "geography", "period", "language")
    )
    version = explain_sensitivity(chunk.doc_id, f"{said}\n{_whole(rows)}", policy)
    if not now:
        # It came through the API, with a label of its own: the policy's level for what has none is not about it.
        return [read_label(finding.level) for finding in version.findings]
    front_matter, problem, title, text, file_labels = now[0]
    current = explain_sensitivity(chunk.doc_id, text, policy, file=FileLabels.load(file_labels))
    resolved = [
        resolve_metadata(
            chunk.doc_id,
            table=metadata,
            verdict=verdict,
            front_matter=stored_front_matter(front_matter, problem),
            file_title=title,
            policy=policy,
        )
        for verdict in (version, current)
    ]
    return [read_label(each.sensitivity) for each in resolved]


def _whole(rows: Iterable[tuple[str, int, int]]) -> str:
    """Return the text that chunks were cut from, what two of them share once, so that no phrase is cut in two."""
    parts, end = [], 0
    for text, start, behind in rows:
        parts.append(text[end - start :] if behind and start <= end <= behind else f"\n{text}")
        end = max(end, behind)
    return "".join(parts)


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
