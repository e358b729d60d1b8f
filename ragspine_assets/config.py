"""Every setting of the service, its default and its environment name, in one place (SPEC 6.2, 7)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

from ragspine_assets.errors import SettingError

DEFAULT_SOURCE = "data/raw"
DEFAULT_STORE = "data/ragspine.duckdb"
DEFAULT_PROFILE = "data/profile.toml"
DEFAULT_FACTS = "data/facts"
DEFAULT_CLIENTS = "clients.toml"
DEFAULT_QUESTIONS = "data/questions.tsv"


T = TypeVar("T")


def _setting(default: T, meaning: str) -> T:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class ServiceConfig:
    """The settings of one service; each field is read from ``RAGSPINE_`` and its name in capitals.

    A source folder other than the demo's gets a store of its own, and none of the demo's profile, facts and review, unless
    they are named.
    """

    source: str = _setting(DEFAULT_SOURCE, "Folder with the documents.")
    store: str = _setting(DEFAULT_STORE, "The chunk store, one DuckDB file.")
    profile: str = _setting(DEFAULT_PROFILE, "Domain profile, TOML; empty for none.")
    facts: str = _setting(DEFAULT_FACTS, "Folder or file of facts, CSV or Parquet; empty for none.")
    snapshots: str = _setting("", "Folder of published snapshots; empty for one beside the store.")
    snapshot_max_label: str = _setting("CONFIDENTIAL", "Highest label that is published; never RESTRICTED.")
    snapshot_levels: str = _setting(
        "",
        "Labels below it up to which somebody is served too, separated by commas; empty for those of the clients, INTERNAL "
        "without clients; `none` for none.",
    )
    signing_key: str = _setting(
        "", "File of the private Ed25519 key that signs snapshots, PEM; empty for no signature."
    )
    trusted_keys: str = _setting(
        "", "Files of public keys, separated by commas: readers refuse what none of them signed."
    )
    snapshot_keep: int = _setting(3, "How many snapshots are kept, the current one among them.")
    questions: str = _setting(
        DEFAULT_QUESTIONS, "Golden questions, CSV or TSV, that a release is judged by; empty for none."
    )
    quality_floor: float = _setting(
        0.0, "Lowest nDCG@10 on them that a release may have to become current; 0 for none."
    )
    copies: str = _setting("", "Folder of the copies that `ragspine backup` makes; empty for one beside the store.")
    copies_keep: int = _setting(7, "How many copies are kept.")
    backup_cron: str = _setting("", "When a copy is made, as cron writes it; empty for never.")
    analyzer: str = _setting(
        "default",
        "How texts become search terms: `default` (stems and spellings), `stemmed` or `plain` (words as they are).",
    )
    chunker: str = _setting("none", "How documents are cut, as `make_chunker` reads it.")
    max_chars: int = _setting(480, "Longest chunk, in code points.")
    overlap_chars: int = _setting(80, "How much of a chunk may be carried into the next, in code points.")
    relation_extractor: str = _setting("none", "Which relations are taken from the text.")
    llm_model: str = _setting("", "Model that `llm` extraction asks.")
    llm_base_url: str = _setting("", "Endpoint of that model, where it is not the provider's own.")
    llm_time_limit_s: float = _setting(60.0, "Seconds that the model may take for one answer.")
    llm_concurrency: int = _setting(4, "Questions put to the model at the same time.")
    max_llm_calls: int = _setting(0, "Most questions put to the model in one run; 0 for no limit.")
    llm_token_budget: int = _setting(0, "Most tokens spent on the model in one run; 0 for no limit.")
    llm_dry_run: bool = _setting(False, "Ask the model nothing, and say what it would cost.")
    max_relations: int = _setting(64, "Most edges taken from one chunk by a model.")
    max_relations_total: int = _setting(0, "Most edges taken by a model in one run; 0 for no limit.")
    review: str = _setting("data/review.csv", "Decisions about a model's edges, CSV; may be missing.")
    workers: int = _setting(0, "Parser processes; 0 is one per processor, at most four.")
    time_limit_s: float = _setting(60.0, "Seconds that parsing one file may take.")
    max_file_bytes: int = _setting(100 * 1024 * 1024, "Largest file that is parsed, in bytes.")
    wait_s: float = _setting(30.0, "Seconds to wait while another process holds the store.")
    turn_s: float = _setting(900.0, "Seconds to wait for runs that started earlier to finish.")
    starting_s: float = _setting(1800.0, "Seconds after which a run that no process took up counts as dead.")
    runs_kept: int = _setting(200, "How many runs stay in the history; 0 for all of them.")
    automation: bool = _setting(True, "Whether schedules and sensors are on when nobody has switched them in the UI.")
    refresh_cron: str = _setting("15 2 * * *", "When everything is brought up to date, as cron writes it.")
    checks_cron: str = _setting("45 * * * *", "When every promise is proved, as cron writes it.")
    timezone: str = _setting("UTC", "Time zone of the two schedules.")
    watch_interval_s: int = _setting(60, "Seconds between two looks at source, profile and facts.")
    fresh_for_h: float = _setting(36.0, "Hours after which what is served counts as stale.")
    notifier: str = _setting("", "Called with each failed run: `module:function`; empty for none.")
    clients: str = _setting(DEFAULT_CLIENTS, "Who may ask the service, TOML; without that file, this machine only.")
    serve_host: str = _setting("127.0.0.1", "Address that the service listens on.")
    serve_port: int = _setting(8000, "Port that the service listens on.")
    serve_origins: str = _setting("", "Addresses under which a proxy shows the service, separated by commas.")
    request_log: str = _setting("", "Folder of the service's request log; empty for one beside the snapshots.")
    ui_origins: str = _setting("", "Addresses under which a proxy shows the UI, separated by commas.")
    allow_mass_removal: bool = _setting(False, "Go on although more than half of the documents are gone.")
    allow_lower_labels: bool = _setting(
        False, "Go on although labels fall because what set them is gone: rows, keywords, the profile."
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ServiceConfig:
        """Read the settings from the environment; what is not set keeps its default.

        Raises:
            ValueError: a variable does not hold a value of its type; the message names it.
        """
        environment = os.environ if environment is None else environment
        given: dict[str, str | int | float | bool] = {}
        for setting in fields(cls):
            name = environment_name(setting.name)
            if environment.get(name, "").strip():
                given[setting.name] = _parse(name, environment[name].strip(), setting.default)
        source = str(given.get("source", DEFAULT_SOURCE))
        if os.path.realpath(source) != os.path.realpath(DEFAULT_SOURCE):
            given = {"profile": "", "facts": "", "review": "", "questions": "", **given}
            if "store" not in given:
                # Imported here: these libraries take longer to load than a command line may take to answer.
                from .pipeline import suggested_store

                given["store"] = suggested_store(source)
        return cls(**given)  # pyright: ignore[reportArgumentType]

    @staticmethod
    def describe() -> list[tuple[str, str, str]]:
        """Return environment name, default and meaning of every setting, for documentation."""
        return [
            (environment_name(setting.name), str(setting.default), str(setting.metadata["meaning"]))
            for setting in fields(ServiceConfig)
        ]

    def snapshots_folder(self) -> str:
        """Return where snapshots are published: the folder named, else one beside the store and called after it."""
        if self.snapshots:
            return self.snapshots
        store = Path(self.store)
        return str(store.with_name("snapshots" if self.store == DEFAULT_STORE else f"{store.stem}.snapshots"))

    def clients_file(self) -> str:
        """Return the file of clients; ``''`` where none is named and there is none by the usual name."""
        return "" if self.clients == DEFAULT_CLIENTS and not Path(self.clients).exists() else self.clients

    def request_log_folder(self) -> str:
        """Return where the service writes what was asked: the folder named, else one beside the snapshots."""
        if self.request_log:
            return self.request_log
        folder = Path(self.snapshots_folder())
        return str(folder.with_name(f"{folder.name}.requests"))

    def trusted_key_files(self) -> tuple[str, ...]:
        """Return the files of public keys one of which must have signed what is read."""
        return tuple(filter(None, (part.strip() for part in self.trusted_keys.split(","))))

    def missing_profile(self) -> bool:
        """Whether a profile is named that does not exist."""
        return bool(self.profile) and not Path(self.profile).is_file()


def environment_name(setting: str) -> str:
    """Return the environment variable of a setting."""
    return f"RAGSPINE_{setting.upper()}"


def _parse(name: str, value: str, default: object) -> str | int | float | bool:
    if isinstance(default, bool):
        if value.casefold() in {"1", "true", "yes", "on"}:
            return True
        if value.casefold() in {"0", "false", "no", "off"}:
            return False
        raise SettingError(f"{name} must be one of 1, true, yes, on, 0, false, no, off; it is {value!r}.")
    if isinstance(default, (int, float)):
        try:
            return type(default)(value)
        except ValueError:
            raise SettingError(f"{name} must be a number like {default}; it is {value!r}.") from None
    return value
