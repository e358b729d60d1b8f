"""Resources: what an asset is configured with (https://docs.dagster.io/guides/build/external-resources).

Belongs here: the settings of each part, with their meaning, and how a library object is made from them. Does not belong
here: any work. A wrong value fails when the definitions load or before a run is launched, and says what is allowed. Only
chunker and extractor may differ from run to run (see `run_config`).
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Self

from dagster import ConfigurableResource, InitResourceContext
from dagster import Field as ConfigField
from dagster._core.definitions.definition_config_schema import DefinitionConfigSchema
from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator
from sqlalchemy.exc import SQLAlchemyError

from ragspine_assets.chunking import Chunker, make_chunker
from ragspine_assets.chunking.chunk import require_sizes
from ragspine_assets.chunking.factory import chunker_names
from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.documents.metadata import MetadataTable, read_metadata_table
from ragspine_assets.errors import SettingError
from ragspine_assets.evaluation.questions import GoldenQuestion, read_questions
from ragspine_assets.graph import (
    RelationExtractor,
    ReviewDecision,
    StoredAnswers,
    asks_a_model,
    extractor_names,
    make_relation_extractor,
    read_decisions,
)
from ragspine_assets.index.analysis import AnalyzerName
from ragspine_assets.llm import LLMProvider, ProviderError, make_provider
from ragspine_assets.llm.provider import require_endpoint
from ragspine_assets.policy import DomainProfile, Sensitivity, load_profile
from ragspine_assets.retrieval.narrative_index import servable_label
from ragspine_assets.service.clients import wanted_levels
from ragspine_assets.store import ChunkStore

from .history import RUNS_KEPT, forget_old_runs
from .naming import Naming
from .own_runs import OwnRuns
from .run_config import explain, kept, number_or_switch, offered, one_of, parameters
from .runs import STARTING_S, close_dead_runs, sign, take_turn


class _Strict(ConfigurableResource):
    """A resource whose unknown fields are errors, and whose values no run config changes.

    Attributes:
        SETTINGS: the setting of `ServiceConfig` that decides, for each field that has one.
    """

    SETTINGS: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=False)

    @property
    def _config_schema(self) -> DefinitionConfigSchema:
        return offered(type(self).__name__, self._fields(), self._validated)

    def _fields(self) -> dict[str, ConfigField]:
        return {name: kept(self.SETTINGS.get(name, ""), getattr(self, name)) for name in type(self).model_fields}

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValueError as problem:
            raise SettingError(explain(problem, self.SETTINGS)) from None

    def _validated(self, values: Mapping[str, Any]) -> Self:
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | dict(values))


class SourceResource(_Strict):
    """The folder of documents, and what one file may cost."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "path": "source", "max_file_bytes": "max_file_bytes", "time_limit_s": "time_limit_s", "workers": "workers",
        "allow_mass_removal": "allow_mass_removal", "allow_lower_labels": "allow_lower_labels",
    }  # fmt: skip

    path: str = Field("data/raw", description="Folder with the documents; walked recursively.")
    max_file_bytes: int = Field(100 * 1024 * 1024, gt=0, description="Largest file that is parsed, in bytes.")
    time_limit_s: float = Field(60.0, gt=0, description="Seconds that parsing one file may take.")
    workers: int = Field(0, ge=0, description="Parser processes; 0 is one per processor, at most four.")
    allow_mass_removal: bool = Field(
        False, description="Go on although more than half of the documents are gone from the folder."
    )
    allow_lower_labels: bool = Field(
        False, description="Go on although labels fall because what set them is gone: rows, keywords, the profile."
    )

    def limits(self) -> ExtractionLimits:
        """Return what parsing one file may cost."""
        return ExtractionLimits(max_bytes=self.max_file_bytes, time_limit_s=self.time_limit_s)

    def processes(self) -> int | None:
        """Return how many processes parse at most; None is one per processor, at most four."""
        return self.workers or None

    def metadata_table(self) -> MetadataTable:
        """Read ``metadata.csv`` of the folder; where there is none, or it may not be read, the table says why."""
        return read_metadata_table(self.path)


class StoreResource(_Strict):
    """The chunk store."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "path": "store",
        "wait_s": "wait_s",
        "turn_s": "turn_s",
        "starting_s": "starting_s",
        "runs_kept": "runs_kept",
    }

    path: str = Field("data/ragspine.duckdb", description="The store file; created if it is missing.")
    wait_s: float = Field(30.0, ge=0, description="Seconds to wait while another process holds the store.")
    turn_s: float = Field(900.0, ge=0, description="Seconds to wait for runs that started earlier to finish.")
    starting_s: float = Field(
        STARTING_S, ge=0, description="Seconds after which a run without a process counts as dead."
    )
    runs_kept: int = Field(RUNS_KEPT, ge=0, description="How many runs stay in the history; 0 for all of them.")
    key_prefix: str = Field("", description="What stands before the keys of the assets, its parts joined by `/`.")
    _kept: ChunkStore = PrivateAttr()

    def setup_for_execution(self, context: InitResourceContext) -> None:
        """Say which process this run is, and let runs that started earlier finish first.

        Each proves what it finds, so it must stand still.
        """
        if context.instance is not None and context.run_id:
            say = context.log.info if context.log else lambda _: None
            mine = self.own_runs()
            sign(context.instance, context.run_id, mine)
            close_dead_runs(context.instance, own=context.run_id, among=mine, patience_s=self.starting_s)
            take_turn(context.instance, context.run_id, among=mine, wait_s=self.turn_s, say=say)

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Let go of the file, and of runs that are older than those that are kept."""
        self._kept.close()
        if context.instance is not None:
            # A history that cannot be written is told by whoever needs it; this run is over.
            with suppress(SQLAlchemyError, OSError):
                forget_old_runs(context.instance, among=self.own_runs(), keep=self.runs_kept)

    def model_post_init(self, context: object, /) -> None:
        """Make the store that the steps of a run share."""
        del context
        self._kept = ChunkStore(self.path, wait_s=self.wait_s, keep_open=True)

    def own_runs(self) -> OwnRuns:
        """Return which runs of an instance are this store's."""
        return OwnRuns(self.path, Naming(tuple(filter(None, self.key_prefix.split("/")))))

    def open(self) -> ChunkStore:
        """Return the store, whose file stays open from step to step until the run ends."""
        return self._kept

    def open_briefly(self) -> ChunkStore:
        """Return a store that is closed after each call, for work during which others get their turn."""
        self._kept.close()
        return ChunkStore(self.path, wait_s=self.wait_s)


class ChunkerResource(_Strict):
    """How documents are cut."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "spec": "chunker", "max_chars": "max_chars", "overlap_chars": "overlap_chars",
    }  # fmt: skip

    spec: str = Field("none", description="Name of a chunker, as `make_chunker` reads it; `none` is the built-in one.")
    max_chars: int = Field(480, description="Longest chunk, in code points.")
    overlap_chars: int = Field(80, description="How much of a chunk may be carried into the next, in code points.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="What else the chunker is made with, such as `window_size: 2`."
    )

    @model_validator(mode="after")
    def _legal(self) -> "ChunkerResource":
        self.make()
        return self

    def _fields(self) -> dict[str, ConfigField]:
        told = {name: str(field.description) for name, field in type(self).model_fields.items()}
        return {
            "spec": one_of("chunkers", chunker_names(), self.spec, told["spec"]),
            "max_chars": number_or_switch(self.max_chars, told["max_chars"]),
            "overlap_chars": number_or_switch(self.overlap_chars, told["overlap_chars"]),
            "parameters": parameters(self.parameters, told["parameters"]),
        }

    def make(self) -> Chunker | None:
        """Return the selected chunker; None means `chunk_document`.

        Raises:
            ValueError: the spec is unknown or the sizes are not legal; the message lists what is.
        """
        require_sizes(self.max_chars, self.overlap_chars)
        return make_chunker(self.spec or "none", **self.parameters)


class LLMProviderResource(_Strict):
    """The language model that extraction may ask; its key comes from the environment and is no setting."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "model": "llm_model", "base_url": "llm_base_url", "time_limit_s": "llm_time_limit_s",
    }  # fmt: skip

    model: str = Field("", description="The model, such as `openai:NAME` or `anthropic:NAME`; empty for none.")
    base_url: str = Field("", description="Its endpoint, where it is not the provider's own.")
    time_limit_s: float = Field(60.0, gt=0, description="Seconds that one attempt may take as a whole.")
    attempts: int = Field(3, ge=1, description="How often a question is put when the endpoint is busy or silent.")
    max_wait_s: float = Field(60.0, ge=0, description="Longest pause between two attempts, in seconds.")

    @field_validator("base_url")
    @classmethod
    def _address(cls, base_url: str) -> str:
        require_endpoint(base_url)
        return base_url

    def make(self) -> tuple[LLMProvider | None, str]:
        """Return the provider, or None and why there is none."""
        try:
            provider = make_provider(
                self.model,
                base_url=self.base_url,
                time_limit_s=self.time_limit_s,
                attempts=self.attempts,
                max_wait_s=self.max_wait_s,
            )
        except ProviderError as error:
            return None, str(error)
        return provider, "" if provider else "no model is named: set RAGSPINE_LLM_MODEL"


class RelationExtractorResource(_Strict):
    """Which relations are taken from the text, and what a model may cost."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "spec": "relation_extractor", "max_relations": "max_relations", "max_relations_total": "max_relations_total",
        "max_llm_calls": "max_llm_calls", "token_budget": "llm_token_budget", "concurrency": "llm_concurrency",
        "dry_run": "llm_dry_run",
    }  # fmt: skip

    spec: str = Field("none", description="`none`, or an extractor as `make_relation_extractor` reads it.")
    max_relations: int = Field(64, ge=1, description="Most edges taken from one chunk by a model.")
    max_relations_total: int = Field(0, ge=0, description="Most edges taken by a model in one run; 0 for no limit.")
    max_llm_calls: int = Field(0, ge=0, description="Most questions put to a model in one run; 0 for no limit.")
    token_budget: int = Field(0, ge=0, description="Most tokens spent on a model in one run; 0 for no limit.")
    concurrency: int = Field(4, ge=1, description="Questions put to a model at the same time.")
    dry_run: bool = Field(False, description="Ask nothing, and say how many chunks and tokens would be sent.")

    @field_validator("spec")
    @classmethod
    def _known(cls, spec: str) -> str:
        make_relation_extractor(spec or "none")
        return spec

    def _fields(self) -> dict[str, ConfigField]:
        told = {name: str(field.description) for name, field in type(self).model_fields.items()}
        return {
            "spec": one_of("relation extractors", extractor_names(), self.spec, told["spec"]),
            **{name: number_or_switch(getattr(self, name), told[name]) for name in told if name != "spec"},
        }

    def make(
        self, profile: DomainProfile, provider: LLMProvider | None = None, store: ChunkStore | None = None
    ) -> RelationExtractor | None:
        """Return the selected extractor; None means that nothing is extracted.

        Args:
            profile: names and gate.
            provider: the model, where the selected extractor asks one.
            store: where a model's answers are kept.

        Raises:
            ValueError: the spec is unknown; the message lists what there is.
        """
        if not asks_a_model(self.spec):
            return make_relation_extractor(self.spec or "none", profile=profile)
        return make_relation_extractor(
            self.spec,
            provider=provider,
            profile=profile,
            max_relations=self.max_relations,
            max_relations_total=self.max_relations_total or None,
            max_llm_calls=self.max_llm_calls or None,
            token_budget=self.token_budget or None,
            concurrency=self.concurrency,
            dry_run=self.dry_run,
            cache=StoredAnswers(store) if store else None,
        )


class ReviewResource(_Strict):
    """What people decided about a model's edges."""

    SETTINGS: ClassVar[Mapping[str, str]] = {"path": "review"}

    path: str = Field("data/review.csv", description="Decisions, CSV; a missing file leaves decisions as they are.")

    def read(self) -> list[ReviewDecision] | None:
        """Read the decisions; None where there is no file.

        Raises:
            ReviewError: the file cannot be read; the message names file, line and what is allowed.
        """
        return read_decisions(self.path) if self.path else None


class ProfileResource(_Strict):
    """What the domain calls its entities and metrics, and what its policy for labels is."""

    SETTINGS: ClassVar[Mapping[str, str]] = {"path": "profile"}

    path: str = Field("data/profile.toml", description="Domain profile, TOML; empty for none.")

    def load(self) -> DomainProfile:
        """Read the profile; without one, everything in it is empty.

        Raises:
            ProfileError: the file is missing or a value in it has a wrong type; the message names file and key.
        """
        return load_profile(self.path) if self.path else DomainProfile("", "")


class FactsResource(_Strict):
    """Where facts come from."""

    SETTINGS: ClassVar[Mapping[str, str]] = {"path": "facts"}

    path: str = Field("data/facts", description="Folder or file of facts, CSV or Parquet; empty for none.")


class QuestionsResource(_Strict):
    """The golden set by which releases are judged."""

    SETTINGS: ClassVar[Mapping[str, str]] = {"path": "questions", "floor": "quality_floor"}

    path: str = Field("", description="Golden questions, CSV or TSV; empty for none.")
    floor: float = Field(0.0, ge=0, le=1, description="Lowest nDCG@10 of a release; 0 for none.")

    def read(self) -> list[GoldenQuestion]:
        """Read the questions; without a file there are none.

        Raises:
            QuestionsError: the file cannot be read; the message names file, line and what is allowed.
        """
        return read_questions(self.path) if self.path else []


class SnapshotsResource(_Strict):
    """Where and how snapshots are published."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "path": "snapshots", "max_label": "snapshot_max_label", "keep": "snapshot_keep", "analyzer": "analyzer",
        "levels": "snapshot_levels", "clients": "clients", "signing_key": "signing_key",
    }  # fmt: skip

    path: str = Field("data/snapshots", description="Folder of published snapshots; created if it is missing.")
    max_label: str = Field("CONFIDENTIAL", description="Highest label that is published; never RESTRICTED.")
    keep: int = Field(3, ge=1, description="How many snapshots are kept, the current one among them.")
    analyzer: AnalyzerName = Field("default", description="How published texts become search terms.")
    levels: str = Field("none", description="Labels up to which somebody is served too, see `wanted_levels`.")
    clients: str = Field("", description="File of the clients of the service, which decide where no level is named.")

    signing_key: str = Field("", description="File of the private key that signs snapshots; empty for no signature.")

    def wanted_levels(self) -> tuple[Sensitivity, ...]:
        """Return the labels up to which the snapshot is indexed, besides its own."""
        return wanted_levels(self.levels, self.clients)

    @field_validator("levels")
    @classmethod
    def _levels(cls, levels: str) -> str:
        if levels.strip():
            wanted_levels(levels, "")
        return levels

    @field_validator("max_label")
    @classmethod
    def _servable(cls, label: str) -> str:
        return str(servable_label(label))
