"""The reader of a published snapshot: what applications hold (SPEC 6.6). It needs neither Dagster nor the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa

from ragspine_assets.graph import DuckDBGraphStore
from ragspine_assets.graph.values import DOC
from ragspine_assets.policy.lattice import Sensitivity, read_label
from ragspine_assets.retrieval.embedding import EmbeddingBackend
from ragspine_assets.retrieval.narrative_index import NarrativeIndex, servable_label
from ragspine_assets.retrieval.narrative_link import NarrativeIndexRetriever
from ragspine_assets.retrieval.question import read_filters
from ragspine_assets.retrieval.rerank import TOP_N, ListwiseJudge
from ragspine_assets.serving.chunk_table import PublishedChunks, map_table
from ragspine_assets.serving.signing import TrustedKeys
from ragspine_assets.serving.snapshot_files import (
    CHUNKS,
    GRAPH_TABLES,
    LEVELS,
    MANIFEST,
    Manifest,
    SnapshotError,
    check_sizes,
    current_name,
    damaged_files,
    read_manifest,
    withdrawn_names,
)
from ragspine_assets.store.chunk_store import StoredChunk
from ragspine_assets.store.database import memory_database

if TYPE_CHECKING:
    from ragspine_assets.index.analysis import AnalyzerName
    from ragspine_assets.index.lexical import LexicalIndex
    from ragspine_assets.index.query import QueryTerm
    from ragspine_assets.index.snapshot_index import SnapshotIndex
    from ragspine_assets.retrieval.context import NodePostprocessor
    from ragspine_assets.retrieval.rewriting import QueryRewriter

VERIFY_UP_TO = 128 * 1024 * 1024
"""Size in bytes up to which a snapshot is hashed when it is opened: about a tenth of a second."""

_ATTEMPTS = 5


class Snapshot:
    """A published snapshot, open and immutable.

    All files are opened and memory-mapped at once, so that a snapshot stays readable when a newer one is published and
    when its folder is deleted. It may be used by several threads; `graph` gives each caller a graph of its own.

    Use `open` to get one.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        chunks: PublishedChunks,
        indexes: Mapping[str, SnapshotIndex[Any]],
        graph: dict[str, pa.Table],
        levels: Mapping[str, Snapshot] | None = None,
    ) -> None:
        self.path = path
        """The folder it was opened from."""
        self.served_from = path if levels is not None else path / LEVELS / manifest.max_label
        """Where its indexes and its graph view lie: in `path`, those of a level below it."""
        self.manifest = manifest
        """What it holds and from what it was made."""
        self.chunks = chunks
        """Its chunks, in natural order of ``chunk_id``."""
        self.indexes = indexes
        """The indexes of the chunks, by name."""
        self._graph = graph
        self._levels = dict(levels or {})
        self._corpus = chunks.corpus(self.lexical)

    @property
    def lexical(self) -> LexicalIndex:
        """The index of the chunks' words."""
        from ragspine_assets.index.lexical import LexicalIndex

        return cast("LexicalIndex", self.indexes[LexicalIndex.name])

    def __repr__(self) -> str:
        return f"Snapshot({str(self.path)!r}, {len(self)} chunks)"

    def __len__(self) -> int:
        return len(self.chunks)

    @classmethod
    def open(cls, path: str | Path, *, verify: bool | None = None, trusted_keys: TrustedKeys = ()) -> Self:
        """Open a snapshot.

        Args:
            path: the folder of snapshots, whose current one is opened, or one snapshot's folder, wherever it was copied.
            verify: whether every byte is compared with the manifest's sha256. By default this is done up to
                `VERIFY_UP_TO`; of larger ones sizes and structure are compared, and `verify` does the rest.
            trusted_keys: files of public Ed25519 keys, PEM. If any are given, one of them must have signed the manifest,
                and every byte is compared with it, whatever ``verify`` says.

        Raises:
            SnapshotError: nothing is published there, or it is damaged, incomplete, another product's, or of a newer
                format, it was withdrawn, or no trusted key signed it. The message says which, and what to do.
            SettingError: a trusted key cannot be read.
        """
        if not isinstance(path, (str, PathLike)) or Path(path).is_file():
            shown = path if isinstance(path, (str, PathLike)) else f"a {type(path).__name__}"
            raise SnapshotError(
                f"A snapshot is opened by its folder, or by the folder of snapshots; {shown} is neither. A store is opened "
                "with ChunkStore, inside the trust boundary only."
            )
        path = Path(path)
        if (path / MANIFEST).is_file() or _is_withdrawn(path):
            return cls._open(path, verify, trusted_keys)
        last: SnapshotError | None = None
        for _ in range(_ATTEMPTS):
            name = current_name(path)
            if name is None:
                break
            try:
                return cls._open(path / name, verify, trusted_keys)
            except SnapshotError as error:
                # It may have been replaced and deleted between the two steps; then there is another one to open.
                last = error
                if current_name(path) == name:
                    raise
        if last is not None:
            raise last
        if path.is_dir():
            raise SnapshotError(
                f"Nothing is published in {path}: nothing was yet, or it was withdrawn because a label was raised. "
                "Publish with `make run`."
            )
        raise SnapshotError(f"There is no folder {path}. Publish with `make run`, or name the folder of snapshots.")

    @classmethod
    def _open(cls, folder: Path, verify: bool | None, trusted_keys: TrustedKeys) -> Self:
        if _is_withdrawn(folder):
            raise SnapshotError(
                f"{folder} was withdrawn: the label of a document in it was raised, or the document was purged. Open "
                f"{folder.parent}, whose current snapshot may be read; publish with `make run` where there is none."
            )
        manifest = read_manifest(folder, trusted_keys)
        check_sizes(folder, manifest)
        if trusted_keys:
            verify = True
        if verify is None:
            verify = sum(entry.bytes for entry in manifest.files.values()) <= VERIFY_UP_TO
        if verify and (damaged := damaged_files(folder, manifest)):
            raise _damaged(folder, damaged)
        try:
            servable_label(manifest.max_label)
            chunks = PublishedChunks.of_file(folder / CHUNKS)
            levels = {
                label: cls(folder, manifest.at(label), part, *_opened(folder / LEVELS / label, part))
                for label in manifest.levels
                for part in (chunks.up_to(servable_label(label)),)
            }
            return cls(folder, manifest, chunks, *_opened(folder, chunks), levels)
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise SnapshotError(
                f"{folder} cannot be read ({type(error).__name__}): it is damaged or incomplete. Copy or publish it again."
            ) from None

    def up_to(self, max_label: str) -> Snapshot:
        """Return what an audience is served: as if this snapshot had never held anything above a label (SPEC 8.3).

        Raises:
            ValueError: ``max_label`` is RESTRICTED or no label.
            SnapshotError: it was published without that level.
        """
        label = servable_label(max_label)
        if label >= servable_label(self.manifest.max_label):
            return self
        if label not in self._levels:
            raise SnapshotError(
                f"{self.path} was published without an index for {label}. Set RAGSPINE_SNAPSHOT_LEVELS to the levels that "
                "are served, or name the clients with RAGSPINE_CLIENTS, and publish with `make run`."
            )
        return self._levels[label]

    def verify(self) -> None:
        """Compare every byte with the manifest.

        Raises:
            SnapshotError: a file is not as it was published, or the folder is gone.
        """
        if damaged := damaged_files(self.path, self.manifest):
            raise _damaged(self.path, damaged)

    def is_current(self) -> bool:
        """Tell whether this is still the snapshot that ``CURRENT`` beside it names.

        False after a newer one was published, and after publication was withdrawn: open again, or stop serving.
        """
        try:
            current = current_name(self.path.parent) == self.path.name
            return current and not _is_withdrawn(self.path)
        except SnapshotError:
            return False

    def retriever(
        self,
        *,
        max_label: str | None = None,
        retry_without_filters: bool = False,
        postprocessor: NodePostprocessor | Sequence[NodePostprocessor] | None = None,
        embedding_backend: EmbeddingBackend | None = None,
        query_rewriter: QueryRewriter | None = None,
        judge: ListwiseJudge | None = None,
        top_n: int = TOP_N,
        collapse_parents: bool = False,
    ) -> NarrativeIndexRetriever:
        """Return a retriever over this snapshot, see `NarrativeIndexRetriever` and `NarrativeIndex` for the arguments.

        Args:
            max_label: highest label a snippet may have; that of the snapshot if not given.
            retry_without_filters: whether a search that found nothing is repeated without its filters.
            postprocessor: what to do with snippets before they are returned.
            embedding_backend: adds dense scores.
            query_rewriter: gives further variants of a query.
            judge: reorders the hits.
            top_n: how many hits are left after a judge.
            collapse_parents: whether only the best child of each section counts.

        Raises:
            ValueError: ``max_label`` is RESTRICTED or no label.
        """
        corpus = self._corpus
        if collapse_parents:
            from dataclasses import replace

            corpus = replace(corpus, parent_numbers=self.chunks.parent_numbers())
        index = NarrativeIndex(
            corpus,
            analyzer=cast("AnalyzerName", self.manifest.analyzer),
            embedding_backend=embedding_backend,
            query_rewriter=query_rewriter,
            judge=judge,
            top_n=top_n,
            collapse_parents=collapse_parents,
        )
        limit = servable_label(self.manifest.max_label if max_label is None else max_label)
        return NarrativeIndexRetriever(
            index,
            max_label=min(limit, servable_label(self.manifest.max_label), key=lambda label: label.rank),
            retry_without_filters=retry_without_filters,
            postprocessor=postprocessor,
        )

    def asked(self, query: str, filters: Mapping[str, str] | None = None) -> list[QueryTerm]:
        """Return what a query asks the index for, its words corrected from those of the chunks that have some values.

        Args:
            query: the question.
            filters: values that fields must have; an empty one is none.

        Raises:
            QuestionError: a filter cannot be read.
        """
        from ragspine_assets.index.analysis import make_analyzer

        analyzer = make_analyzer(cast("AnalyzerName", self.manifest.analyzer))
        wanted = read_filters(filters, {})
        return self._corpus.read(query, analyzer, wanted, servable_label(self.manifest.max_label))[0]

    def chunk(self, citation: str) -> StoredChunk | None:
        """Return the chunk that a citation ``{doc_id}@v{version}#c{seq}`` or a ``chunk_id`` names; None if not here."""
        position = self.position(citation)
        if position is None:
            return None
        chunk = self.chunks[position]
        # The exit, for a snapshot that somebody else made.
        return chunk if read_label(chunk.sensitivity) < Sensitivity.RESTRICTED else None

    def position(self, citation: str) -> int | None:
        """Return where the chunk stands that a citation or a ``chunk_id`` names; None if not here."""
        for doc_id, version, seq in citations(citation):
            positions = self.chunks.of_document(doc_id)
            found = self.chunks.numbers["seq"][positions] == seq
            if version is not None:
                found &= self.chunks.numbers["version"][positions] == version
            if found.any():
                return int(positions[found.argmax()])
        return None

    def citation(self, position: int) -> str:
        """Return the durable name of the chunk at a position."""
        doc_id = self.chunks.values["doc_id"][self.chunks.codes["doc_id"].item(position)]
        numbers = self.chunks.numbers
        return f"{doc_id}@v{numbers['version'].item(position)}#c{numbers['seq'].item(position)}"

    def graph(self, *, max_label: str | None = None) -> DuckDBGraphStore:
        """Return the graph view: `DuckDBGraphStore` over a database in memory, loaded from the snapshot.

        Args:
            max_label: highest label of a document that anything in it may rest on; that of the snapshot if not given.

        Raises:
            ValueError: ``max_label`` is RESTRICTED or no label.
        """
        connection = memory_database()
        for name, table in self._graph.items():
            connection.register("_published", table)
            connection.execute(f"CREATE TABLE {name} AS FROM _published")
            connection.unregister("_published")
        if max_label is None or servable_label(max_label) >= servable_label(self.manifest.max_label):
            return DuckDBGraphStore(connection)
        from ragspine_assets.serving.servable_graph import servable_graph

        connection.register("_labels", self.chunks.labels())
        # A document without chunks stands in the graph alone.
        connection.execute(
            "CREATE TABLE narrative_chunk AS SELECT doc_id, sensitivity, TRUE AS active FROM _labels; "
            "CREATE TABLE document AS SELECT id AS doc_id, sensitivity, 'ingested' AS status FROM graph_node "
            f"WHERE type = '{DOC}'"
        )
        return servable_graph(connection, servable_label(max_label))


def citations(citation: str) -> list[tuple[str, int | None, int]]:
    """Return how a citation or a ``chunk_id`` can be read: document, version (None for the one that counts), ``seq``.

    A document may be called ``notes@v2``, so there can be two ways.
    """
    head, mark, seq = citation.rpartition("#c")
    if not (mark and head and seq.isascii() and seq.isdecimal() and len(seq) < 10):
        return []
    doc_id, mark, version = head.rpartition("@v")
    ways: list[tuple[str, int | None, int]] = []
    if mark and doc_id and version.isascii() and version.isdecimal() and len(version) < 10:
        ways.append((doc_id, int(version), int(seq)))
    return [*ways, (head, None, int(seq))]


def _opened(folder: Path, chunks: PublishedChunks) -> tuple[dict[str, SnapshotIndex[Any]], dict[str, pa.Table]]:
    """Open the indexes of some chunks and their graph view."""
    from ragspine_assets.serving.indexes import INDEXES

    indexes = {index.name: index.open(folder / index.name) for index in INDEXES}
    if any(len(index) != len(chunks) for index in indexes.values()):
        raise ValueError("index and chunks differ")
    return indexes, {name: map_table(folder / f"{name}.arrow") for name in GRAPH_TABLES}


def _is_withdrawn(folder: Path) -> bool:
    return folder.name in withdrawn_names(folder.parent)


def _damaged(folder: Path, files: Sequence[str]) -> SnapshotError:
    return SnapshotError(
        f"{folder} is damaged: {', '.join(files[:3])} is not as it was published. Copy or publish it again."
    )
