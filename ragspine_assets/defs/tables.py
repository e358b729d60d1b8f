"""Tables and schemas for the UI (https://docs.dagster.io/guides/build/assets/metadata-and-tags/table-metadata).

Belongs here: turning what a stage reports into metadata values. Does not belong here: finding anything out.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from dagster import MetadataValue, TableColumn, TableColumnConstraints, TableMetadataValue, TableRecord, TableSchema

from ragspine_assets.chunking.chunk import COLUMNS
from ragspine_assets.store.schema import TABLES

MAX_ROWS = 50

DESCRIPTIONS: Mapping[str, str] = {
    **{column.name: column.meaning for column in COLUMNS},
    "source_locator": "Which paragraphs or profile entry the row comes from.",
    "index_language": "By which language's rules the published index reads the row; empty for none.",
    "status": "ingested, no_text, failed or removed.",
    "reason": "Why a document failed.",
    "retry": "Whether the next run tries again although nothing changed.",
    "content_hash": "SHA-256 of the file's bytes.",
    "bytes": "Size of the file.",
    "suffix": "Suffix of the file's name, in lower case.",
    "markup": "markdown or plain: how headings are found.",
    "parser": "What parsed the file, and its version.",
    "extraction": "What the stored text depends on besides the bytes.",
    "encoding": "Character encoding the file was read in.",
    "encoding_found_by": "How the encoding was found.",
    "pages": "Pages or slides; 0 where unknown.",
    "characters": "Length of the text, in code points.",
    "paragraphs": "Lines of the text that are not blank.",
    "text_hash": "SHA-256 of the normalised text.",
    "left_out": "Kinds of what the file holds and its text does not, by design, and how often.",
    "label_reason": "What decided the label.",
    "policy_label": "What the policy alone would say.",
    "policy_reason": "Why the policy says so.",
    "policy_findings": "What spoke for a label: kinds and places, no words.",
    "label_only": "How much of each kind was read for the label only.",
    "policy_hash": "Which policy said so.",
    "file_title": "Title that the file itself states.",
    "front_matter": "Front matter block of a Markdown file.",
    "front_matter_problem": "Why the block cannot be parsed.",
    "problems": "What somebody should look at.",
    "run_id": "Run that wrote the row.",
    "changed_at": "When the row was written, UTC.",
    "ingested_at": "When the version was written, UTC.",
    "version": "Version of the document, from 1.",
    "active": "Whether this is the version that counts now.",
    "type": "Kind of node or edge.",
    "id": "Code, name or path; unique within its type.",
    "label": "Name to show.",
    "source_doc_id": "Document the row comes from, or company_profile.",
    "src_type": "Kind of the node the edge starts at.",
    "src": "Node the edge starts at.",
    "dst_type": "Kind of the node the edge ends at.",
    "dst": "Node the edge ends at.",
    "kind": "profile, metadata, text, fact, external, extracted, review or reviewed.",
    "reference": "Keyed hash of a document that was purged.",
    "purged_at": "When it was purged, UTC.",
    "metric_code": "What is measured.",
    "period_type": "Kind of period, such as FY.",
    "value": "The figure.",
    "answer_id": "Hash of model, prompt version, parameters and text.",
    "model": "Model that was asked.",
    "prompt_version": "Rules, form of the question and schema.",
    "parameters": "Digest of the further parameters.",
    "proposals": "What the model proposed, as JSON.",
    "problem": "Why an answer could not be read.",
    "answered_by": "Model that the endpoint says has answered.",
    "input_tokens": "Tokens of the question.",
    "output_tokens": "Tokens of the answer.",
    "asked_at": "When the answer came, UTC.",
    "extractor": "Who made the edge.",
    "deterministic": "Whether it promises the same edges for the same text, without a model.",
    "documents": "Documents that give the name; one name may be several things.",
    "derived": "model-derived: a model asserted it.",
    "verified": "unverified: nobody checked it.",
    "verdict": "accept or reject.",
    "decided_by": "Who decided.",
    "decided_at": "When, as that person wrote it.",
    "unit": "Unit of the figure.",
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
                    description=DESCRIPTIONS[name],
                    constraints=TableColumnConstraints(nullable="NOT NULL" not in kind),
                )
            )
    return TableSchema(columns)


def arrow_schema(schema: pa.Schema) -> TableSchema:
    """Return the columns of an Arrow file, with type and meaning."""
    return TableSchema(
        [TableColumn(field.name, type=str(field.type), description=DESCRIPTIONS[field.name]) for field in schema]
    )


def table(rows: Sequence[Mapping[str, str | int | float]], columns: Sequence[str]) -> TableMetadataValue:
    """Return a table of at most fifty rows; the last row says how many more there are."""
    shown = [TableRecord({name: row[name] for name in columns}) for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        more: dict[str, str | int | float] = dict.fromkeys(columns, "")
        more[columns[0]] = f"and {len(rows) - MAX_ROWS} more"
        shown.append(TableRecord(more))
    kinds = {
        name: "int" if shown and all(isinstance(r.data[name], int) for r in shown) else "string" for name in columns
    }
    return MetadataValue.table(shown, TableSchema([TableColumn(name, type=kinds[name]) for name in columns]))


NOTHING = "nothing"
"""What a table of sentences says when there is none."""


def lines(texts: Sequence[str], title: str) -> TableMetadataValue:
    """Return sentences as a table of one column: the UI shows tables in place, and Markdown only on a click."""
    return table([{title: text} for text in texts] or [{title: NOTHING}], (title,))


def seconds(parts: Mapping[str, float]) -> str:
    """Return times by part of the work as one line."""
    return ", ".join(f"{part} {value:.2f} s" for part, value in sorted(parts.items())) or "nothing to do"
