"""Checks on `chunks` and `chunk_store`."""

from ragspine_assets.audit.chunk_store import audit_schema, audit_versions
from ragspine_assets.audit.chunks import audit_chunk_labels, audit_chunk_text, audit_windows
from ragspine_assets.audit.isolation import audit_isolation

from .verdicts import store_check

CHUNK_CHECKS = (
    store_check(
        "chunks_quote_and_cover_the_text",
        audit_chunk_text,
        "Each chunk is an exact slice of its document's text, and together the chunks cover all of it.",
    ),
    store_check(
        "windows_contain_their_chunk",
        audit_windows,
        "Each window holds its chunk, each parent span its chunk's span, and both come from the chunk's own document.",
    ),
    store_check(
        "chunks_carry_their_documents_label",
        audit_chunk_labels,
        "Every chunk, staged or stored, in every version, is at least as protected as its document.",
    ),
)

STORE_CHECKS = (
    store_check(
        "nothing_restricted_leaves_the_retriever",
        audit_isolation,
        "RESTRICTED chunks, looked for with their own words through index, judge and link, appear in no snippet, "
        "prompt_text or judge prompt. A text that an open and a RESTRICTED document both hold is a warning.",
    ),
    store_check(
        "one_active_version_equal_to_staged",
        audit_versions,
        "Each document has one active version at most, versions have no gaps, and the active one equals what is staged.",
    ),
    store_check(
        "schema_is_complete",
        audit_schema,
        "Every table has every column, and rows older than a column read back with its default.",
    ),
)
