"""Resources: what an asset is configured with (https://docs.dagster.io/guides/build/external-resources).

Belongs here: settings that a run may override, with their meaning, and how a library object is made from them. Does not
belong here: any work. A wrong value fails when the definitions load or the run starts, and says what is allowed.
"""

from pathlib import Path

from dagster import ConfigurableResource, InitResourceContext
from pydantic import ConfigDict, Field, field_validator

from ragspine_assets.chunking import Chunker, make_chunker
from ragspine_assets.chunking.chunk import require_sizes
from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.documents.metadata import MetadataTable, load_metadata_table
from ragspine_assets.documents.source import METADATA_FILE
from ragspine_assets.graph import RelationExtractor, make_relation_extractor
from ragspine_assets.policy import DomainProfile, load_profile
from ragspine_assets.store import ChunkStore

from .runs import close_dead_runs, take_turn


class _Strict(ConfigurableResource):
    """A resource whose unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=False)


class SourceResource(_Strict):
    """The folder of documents, and what one file may cost."""

    path: str = Field("data/raw", description="Folder with the documents; walked recursively.")
    max_file_bytes: int = Field(100 * 1024 * 1024, gt=0, description="Largest file that is parsed, in bytes.")
    time_limit_s: float = Field(60.0, gt=0, description="Seconds that parsing one file may take.")
    workers: int = Field(0, ge=0, description="Parser processes; 0 is one per processor, at most four.")
    allow_mass_removal: bool = Field(
        False, description="Go on although more than half of the documents are gone from the folder."
    )

    def limits(self) -> ExtractionLimits:
        """Return what parsing one file may cost."""
        return ExtractionLimits(max_bytes=self.max_file_bytes, time_limit_s=self.time_limit_s)

    def metadata_table(self) -> MetadataTable:
        """Read ``metadata.csv`` of the folder; without one, no document has a row."""
        path = Path(self.path) / METADATA_FILE
        return load_metadata_table(path) if path.is_file() else MetadataTable()


class StoreResource(_Strict):
    """The chunk store."""

    path: str = Field("data/ragspine.duckdb", description="The store file; created if it is missing.")
    wait_s: float = Field(30.0, ge=0, description="Seconds to wait while another process holds the store.")
    turn_s: float = Field(900.0, ge=0, description="Seconds to wait for runs that started earlier to finish.")

    def setup_for_execution(self, context: InitResourceContext) -> None:
        """Let runs of this instance that started earlier finish first: each proves what it finds, so it must stand still."""
        if context.instance is not None and context.run_id:
            say = context.log.info if context.log else lambda _: None
            close_dead_runs(context.instance, own=context.run_id)
            take_turn(context.instance, context.run_id, wait_s=self.turn_s, say=say)

    def open(self) -> ChunkStore:
        """Return the store; each call on it opens the file and closes it again."""
        return ChunkStore(self.path, wait_s=self.wait_s)


class ChunkerResource(_Strict):
    """How documents are cut."""

    spec: str = Field("none", description="Name of a chunker, as `make_chunker` reads it; `none` is the built-in one.")
    max_chars: int = Field(480, description="Longest chunk, in code points.")
    overlap_chars: int = Field(80, description="How much of a chunk may be carried into the next, in code points.")

    @field_validator("spec")
    @classmethod
    def _known(cls, spec: str) -> str:
        make_chunker(spec or "none")
        return spec

    def make(self) -> Chunker | None:
        """Return the selected chunker; None means `chunk_document`.

        Raises:
            ValueError: the spec is unknown or the sizes are not legal; the message lists what is.
        """
        require_sizes(self.max_chars, self.overlap_chars)
        return make_chunker(self.spec or "none")


class RelationExtractorResource(_Strict):
    """Which relations are taken from the text."""

    spec: str = Field("none", description="`none`, or an extractor as `make_relation_extractor` reads it.")

    @field_validator("spec")
    @classmethod
    def _known(cls, spec: str) -> str:
        make_relation_extractor(spec or "none")
        return spec

    def make(self, profile: DomainProfile) -> RelationExtractor | None:
        """Return the selected extractor; None means that nothing is extracted.

        Raises:
            ValueError: the spec is unknown; the message lists what there is.
        """
        return make_relation_extractor(self.spec or "none", profile=profile)


class ProfileResource(_Strict):
    """What the domain calls its entities and metrics, and what its policy for labels is."""

    path: str = Field("data/profile.toml", description="Domain profile, TOML; empty for none.")

    def load(self) -> DomainProfile:
        """Read the profile; without one, everything in it is empty.

        Raises:
            ProfileError: the file is missing or a value in it has a wrong type; the message names file and key.
        """
        return load_profile(self.path) if self.path else DomainProfile("", "")


class FactsResource(_Strict):
    """Where facts come from."""

    path: str = Field("data/facts", description="Folder or file of facts, CSV or Parquet; empty for none.")
