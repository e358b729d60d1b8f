"""Tables and schemas for the UI (https://docs.dagster.io/guides/build/assets/metadata-and-tags/table-metadata).

Belongs here: turning what a stage reports into metadata values. Does not belong here: finding anything out.
"""

from collections.abc import Mapping, Sequence

from dagster import MetadataValue, TableColumn, TableColumnConstraints, TableMetadataValue, TableRecord, TableSchema

from ..store.schema import TABLES

MAX_ROWS = 50

DESCRIPTIONS: Mapping[str, str] = {
    "doc_id": "Path relative to the source root, NFC-normalised.",
    "chunk_id": "Document and sequence number: {doc_id}#c{seq}.",
    "seq": "Position of the chunk in its document, from 0.",
    "text": "The chunk: a slice of the document's canonical text.",
    "source_locator": "Which paragraphs the row comes from.",
    "para_start": "First paragraph, from 1.",
    "para_end": "Last paragraph.",
    "sensitivity": "PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED.",
    "label_reason": "What decided the label.",
    "window_text": "Wider context of the chunk, where the chunker gives one.",
    "parent_locator": "Paragraphs that the window covers.",
    "page_start": "First page or slide; 0 where unknown.",
    "page_end": "Last page or slide; 0 where unknown.",
    "char_start": "Offset into the canonical text, in code points.",
    "char_end": "Offset behind the last code point.",
    "ingested_at": "When the version was written, UTC.",
    "version": "Version of the document, from 1.",
    "active": "Whether this is the version that counts now.",
    "status": "ingested, no_text, failed or removed.",
    "reason": "Why a document failed.",
    "content_hash": "SHA-256 of the file's bytes.",
    "encoding": "Character encoding the file was read in.",
    "encoding_found_by": "How the encoding was found.",
}


def column_schema(*tables: str) -> TableSchema:
    """Return the columns of stored tables, with type, constraint and meaning."""
    columns = []
    for table in tables:
        for name, kind in TABLES[table].items():
            columns.append(
                TableColumn(
                    name if len(tables) == 1 else f"{table}.{name}",
                    type=kind.split(" ")[0].lower(),
                    description=DESCRIPTIONS.get(name),
                    constraints=TableColumnConstraints(nullable="NOT NULL" not in kind),
                )
            )
    return TableSchema(columns)


def table(rows: Sequence[Mapping[str, str | int | float]], columns: Sequence[str]) -> TableMetadataValue:
    """Return a table of at most fifty rows; the last row says how many more there are."""
    shown = [TableRecord({name: row[name] for name in columns}) for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        more: dict[str, str | int | float] = dict.fromkeys(columns, "")
        more[columns[0]] = f"and {len(rows) - MAX_ROWS} more"
        shown.append(TableRecord(more))
    kinds = {name: "int" if shown and all(isinstance(r.data[name], int) for r in shown) else "string" for name in columns}
    return MetadataValue.table(shown, TableSchema([TableColumn(name, type=kinds[name]) for name in columns]))


def bullets(lines: Sequence[str], none: str, limit: int = MAX_ROWS) -> str:
    """Return lines as a Markdown list, at most ``limit`` of them; ``none`` where there are none."""
    if not lines:
        return none
    shown = [f"- {line}" for line in lines[:limit]]
    return "\n".join([*shown, f"- and {len(lines) - limit} more"] if len(lines) > limit else shown)


def seconds(parts: Mapping[str, float]) -> str:
    """Return times by part of the work as one line."""
    return ", ".join(f"{part} {value:.2f} s" for part, value in sorted(parts.items())) or "nothing to do"
