"""Resources: what an asset is configured with (https://docs.dagster.io/guides/build/external-resources).

Belongs here: the settings of each part, with their meaning, and how a library object is made from them. Does not belong
here: any work. A wrong value fails when the definitions load or before a run is launched, and says what is allowed. Only
chunker and extractor may differ from run to run (see `run_config`).
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from dagster import ConfigurableResource, InitResourceContext
from dagster import Field as ConfigField
from dagster._core.definitions.definition_config_schema import DefinitionConfigSchema
from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator
from sqlalchemy.exc import SQLAlchemyError

from ragspine_assets.chunking import Chunker, make_chunker
from ragspine_assets.chunking.chunk import require_sizes
from ragspine_assets.chunking.factory import chunker_names
from ragspine_assets.config import DEFAULT_QUESTIONS, SETTINGS, ServiceConfig, Value
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

from .history import forget_old_runs
from .naming import Naming
from .own_runs import OwnRuns
from .run_config import explain, kept, number_or_switch, offered, one_of, parameters
from .runs import close_dead_runs, sign, take_turn


def of(setting: str, *, default: Value | None = None) -> Any:
    """Return the field that a setting decides: its default, limits and meaning are the setting's.

    Args:
        setting: name of a field of `ServiceConfig`.
        default: what the setting's default comes to, where that depends on other settings.
    """
    told = SETTINGS[setting]
    return Field(
        told.default if default is None else default,
        ge=told.least,
        le=told.most,
        gt=told.above,
        description=told.meaning,
        json_schema_extra={"setting": setting},
    )


class _Strict(ConfigurableResource):
    """A resource whose unknown fields are errors, and whose values no run config changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=False)

    @property
    def _config_schema(self) -> DefinitionConfigSchema:
        return offered(type(self).__name__, self._fields(), self._validated)

    @classmethod
    def settings(cls) -> dict[str, str]:
        """Return the setting of `ServiceConfig` that decides, for each field that has one."""
        extras = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        return {name: str(extra["setting"]) for name, extra in extras.items() if isinstance(extra, dict)}

    @classmethod
    def values_of(cls, config: ServiceConfig) -> dict[str, Any]:
        """Return the value of each field that a setting decides."""
        return {name: getattr(config, setting) for name, setting in cls.settings().items()}

    @classmethod
    def configured(cls, config: ServiceConfig, **others: object) -> Self:
        """Return the resource that the settings describe, with the fields that no setting decides as they are given."""
        return cls(**cls.values_of(config), **others)

    def _fields(self) -> dict[str, ConfigField]:
        settings = self.settings()
        return {name: kept(settings.get(name, ""), getattr(self, name)) for name in type(self).model_fields}

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValueError as problem:
            raise SettingError(explain(problem, self.settings(), type(self).model_fields)) from None

    def _validated(self, values: Mapping[str, Any]) -> Self:
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | dict(values))


class SourceResource(_Strict):
    """The folder of documents, and what one file may cost."""

    path: str = of("source")
    max_file_bytes: int = of("max_file_bytes")
    time_limit_s: float = of("time_limit_s")
    workers: int = of("workers")
    allow_mass_removal: bool = of("allow_mass_removal")
    allow_lower_labels: bool = of("allow_lower_labels")

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

    path: str = of("store")
    wait_s: float = of("wait_s")
    turn_s: float = of("turn_s")
    starting_s: float = of("starting_s")
    runs_kept: int = of("runs_kept")
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

    spec: str = of("chunker")
    max_chars: int = of("max_chars")
    overlap_chars: int = of("overlap_chars")
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

    model: str = of("llm_model")
    base_url: str = of("llm_base_url")
    time_limit_s: float = of("llm_time_limit_s")
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

    spec: str = of("relation_extractor")
    max_relations: int = of("max_relations")
    max_relations_total: int = of("max_relations_total")
    max_llm_calls: int = of("max_llm_calls")
    token_budget: int = of("llm_token_budget")
    concurrency: int = of("llm_concurrency")
    dry_run: bool = of("llm_dry_run")

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

    path: str = of("review")

    def read(self) -> list[ReviewDecision] | None:
        """Read the decisions; None where there is no file.

        Raises:
            ReviewError: the file cannot be read; the message names file, line and what is allowed.
        """
        return read_decisions(self.path) if self.path else None


class ProfileResource(_Strict):
    """What the domain calls its entities and metrics, and what its policy for labels is."""

    path: str = of("profile")

    def load(self) -> DomainProfile:
        """Read the profile; without one, everything in it is empty.

        Raises:
            ProfileError: the file is missing or a value in it has a wrong type; the message names file and key.
        """
        return load_profile(self.path) if self.path else DomainProfile("", "")


class FactsResource(_Strict):
    """Where facts come from."""

    path: str = of("facts")


class QuestionsResource(_Strict):
    """The golden set by which releases are judged."""

    path: str = of("questions")
    floor: float = of("quality_floor")

    def read(self) -> list[GoldenQuestion]:
        """Read the questions; without a file there are none. One that somebody named must be there.

        Raises:
            QuestionsError: the file cannot be read; the message names file, line and what is allowed.
        """
        unnamed = self.path in ("", DEFAULT_QUESTIONS)
        return [] if unnamed and not os.path.exists(self.path) else read_questions(self.path)


class SnapshotsResource(_Strict):
    """Where and how snapshots are published."""

    path: str = of("snapshots", default=ServiceConfig().snapshots_folder())
    max_label: str = of("snapshot_max_label")
    keep: int = of("snapshot_keep")
    analyzer: AnalyzerName = of("analyzer")
    levels: str = of("snapshot_levels", default="none")
    clients: str = of("clients", default="")
    signing_key: str = of("signing_key")

    @classmethod
    def values_of(cls, config: ServiceConfig) -> dict[str, Any]:
        """Return the value of each field; folder and file may depend on what is there."""
        return {
            **super().values_of(config),
            "path": config.snapshots_folder(),
            "clients": config.clients_file(),
        }

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


RESOURCES: Mapping[str, type[_Strict]] = {
    "source": SourceResource,
    "store": StoreResource,
    "profile": ProfileResource,
    "facts_source": FactsResource,
    "chunker": ChunkerResource,
    "snapshots": SnapshotsResource,
    "questions": QuestionsResource,
    "relation_extractor": RelationExtractorResource,
    "llm_provider": LLMProviderResource,
    "review": ReviewResource,
}
"""Every resource by the name under which assets ask for it."""
