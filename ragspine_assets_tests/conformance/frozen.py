"""What the default path makes of the demo corpus, in a form that can be frozen.

``python -m ragspine_assets_tests.conformance.frozen`` writes it to ``golden/default.json``. Do that only when the default
output is meant to change; the difference is part of the review. Texts are kept as digests.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from ragspine_assets.chunking import make_chunker
from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.documents.metadata import load_metadata_table
from ragspine_assets.graph import read_facts, update_graph, withdraw_documents, write_facts
from ragspine_assets.pipeline import activate_staged, stage_chunks, sync_documents
from ragspine_assets.pipeline.overview import document_overview, staged_overview, store_overview
from ragspine_assets.policy import load_profile
from ragspine_assets.store import ChunkStore
from ragspine_assets.store.references import set_setting

DEMO = Path(__file__).resolve().parents[2] / "data"
GOLDEN = Path(__file__).parent / "golden" / "default.json"

DOCUMENTS = (
    "doc_id, status, reason, content_hash, markup, parser, encoding, encoding_found_by, pages, characters, paragraphs, "
    "text_hash, sha256(title) AS title, topic, entity, geography, period, language, valid_as_of, sensitivity, label_reason"
)
_PARSERS = ("pypdfium2", "lxml", "kreuzberg", "charset-normalizer", "markdown-it-py")

CHUNKS = (
    "chunk_id, version, active, sensitivity, source_locator, page_start, page_end, char_start, char_end, "
    "sha256(concat_ws(chr(31), text, title, topic, entity, geography, period, language, parent_id, heading, window_text, "
    "parent_locator, valid_as_of)) AS content"
)
TABLES = {
    "documents": f"SELECT {DOCUMENTS} FROM document ORDER BY doc_id",
    "chunks": f"SELECT {CHUNKS} FROM narrative_chunk ORDER BY doc_id, seq, version",
    "nodes": "SELECT type, id, label, sensitivity, source_doc_id, source_locator FROM graph_node ORDER BY ALL",
    "edges": "SELECT src_type, src, dst_type, dst, type FROM graph_edge ORDER BY ALL",
    "evidence": "SELECT src, dst, type, kind, source_doc_id, source_locator, chunk_id, version FROM graph_evidence ORDER BY ALL",
}


def freeze(source: Path, store: ChunkStore, *, workers: int = 0, chunker: str = "none") -> str:
    """Run the stages over a copy of the demo corpus and return everything that was stored, without times."""
    profile = load_profile(DEMO / "profile.toml")
    with store:
        with store.connect() as connection:
            # Data versions are keyed, by a key that each store makes for itself.
            set_setting(connection, "reference_key", bytes(32).hex())
        sync_documents(
            store,
            source,
            metadata=load_metadata_table(source / "metadata.csv"),
            policy=profile.sensitivity,
            limits=ExtractionLimits(),
            workers=workers,
            withdraw=withdraw_documents,
        )
        stage_chunks(store, make_chunker(chunker))
        activate_staged(store)
        with store.connect() as connection:
            write_facts(connection, read_facts(DEMO / "facts"))
        graph = update_graph(store, profile)
        frozen: dict[str, object] = {
            "parsers": {name: version(name) for name in _PARSERS},
            "data versions": {
                "raw_documents": document_overview(store).digest,
                "chunks": staged_overview(store).digest,
                "chunk_store": store_overview(store).digest,
                "relation_graph": graph.digest,
            },
        }
        with store.connect() as connection:
            for name, query in TABLES.items():
                frozen[name] = [list(row) for row in connection.execute(query).fetchall()]
    parts = []
    for name, content in frozen.items():
        rows = content if isinstance(content, list) else [content]
        lines = ",\n".join(json.dumps(row, ensure_ascii=False, default=str) for row in rows)
        parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.write_text(freeze(DEMO / "raw", ChunkStore(Path(folder, "store.duckdb"))))
    sys.stdout.write(f"{GOLDEN}\n")
