"""Every setting of the service, its default and its environment name, in one place (SPEC 6.2, 7)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from ragspine_assets.errors import SettingError

DEFAULT_SOURCE = "data/raw"
DEFAULT_STORE = "data/ragspine.duckdb"
DEFAULT_PROFILE = "data/profile.toml"
DEFAULT_FACTS = "data/facts"
DEFAULT_CLIENTS = "clients.toml"
DEFAULT_QUESTIONS = "data/questions.tsv"


Value = str | int | float | bool
T = TypeVar("T", str, int, float, bool)

_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_CRON = "a cron expression such as '15 2 * * *'"
_ORIGINS = "addresses without a path, such as https://dagster.example.org, separated by commas"
_PREFIX = "RAGSPINE_"
# Read from the environment and no settings: they hold a secret.
_KEYS = ("LLM_API_KEY",)


@dataclass(frozen=True)
class Setting:
    """What there is to know about one setting, whoever asks: environment, resource, launchpad, command line, docs.

    Attributes:
        name: the field of `ServiceConfig`.
        default: its default, whose type is the setting's.
        meaning: what it decides, in a sentence, with its unit.
        least: the smallest number allowed.
        most: the largest number allowed.
        above: the number that it must exceed.
        choices: the words allowed, where there are few.
        form: what a text must look like, where only whoever uses it can judge.
        secret: whether a wrong value may hold what nobody should see, so that messages leave it out.
    """

    name: str
    default: Value
    meaning: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    form: str = ""
    secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable."""
        return environment_name(self.name)

    @property
    def allowed(self) -> str:
        """What a value must be, as it follows "must be"."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if isinstance(self.default, bool):
            return f"one of {', '.join((*_ON, *_OFF))}"
        if isinstance(self.default, str):
            return self.form or "a text"
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        if self.least is not None and self.most is not None:
            return f"{kind} from {self.least:g} to {self.most:g}"
        if self.least is not None:
            return f"{kind} of at least {self.least:g}"
        return f"{kind} above {self.above:g}" if self.above is not None else kind

    def wrong(self, value: object, *, called: str = "", near: Iterable[str] = ()) -> SettingError:
        """Return the error of a wrong value: which setting, what it was, what is allowed, and the nearest of that.

        Args:
            value: what it was; not shown where that may be a secret.
            called: what the setting is called where it was said, if not by its variable.
            near: allowed words to choose the nearest from, beside `choices`.
        """
        name = f"{called} ({self.variable})" if called else self.variable
        was = "" if self.secret else f"; it is {value!r}"
        return SettingError(f"{name} must be {self.allowed}{was}.{did_you_mean(value, (*self.choices, *near))}")

    def read(self, text: str) -> Value:
        """Return the value that a text of the environment stands for.

        Raises:
            SettingError: it stands for none that is allowed.
        """
        value: Value = text
        try:
            if isinstance(self.default, bool):
                value = {word: word in _ON for word in (*_ON, *_OFF)}[text.casefold()]
            elif not isinstance(self.default, str):
                value = type(self.default)(text)
        except (KeyError, ValueError):
            raise self.wrong(text) from None
        self.require(value)
        return value

    def require(self, value: object) -> None:
        """Raise a `SettingError` if this is not allowed."""
        if isinstance(self.default, (bool, str)):
            right = isinstance(value, type(self.default)) and (not self.choices or value in self.choices)
        else:
            right = (
                isinstance(value, (int, type(self.default)))
                and not isinstance(value, bool)
                and math.isfinite(value)
                and (self.least is None or value >= self.least)
                and (self.most is None or value <= self.most)
                and (self.above is None or value > self.above)
            )
        if not right:
            raise self.wrong(value)


def did_you_mean(value: object, choices: Iterable[str]) -> str:
    """Return a sentence with the choice nearest to a value; '' where none is near."""
    near = get_close_matches(str(value).strip().casefold(), list(choices), 1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near and near[0] != value else ""


def _setting(
    default: T,
    meaning: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] = (),
    form: str = "",
    secret: bool = False,
) -> T:
    told = {"least": least, "most": most, "above": above, "choices": choices, "form": form, "secret": secret}
    return field(default=default, metadata={"meaning": meaning, **told})


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
    snapshot_max_label: str = _setting(
        "CONFIDENTIAL", "Highest label that is published; never RESTRICTED.", form="PUBLIC, INTERNAL or CONFIDENTIAL"
    )
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
    snapshot_keep: int = _setting(3, "How many snapshots are kept, the current one among them.", least=1)
    questions: str = _setting(
        DEFAULT_QUESTIONS, "Golden questions, CSV or TSV, that a release is judged by; empty for none."
    )
    quality_floor: float = _setting(
        0.0, "Lowest nDCG@10 on them that a release may have to become current; 0 for none.", least=0, most=1
    )
    copies: str = _setting("", "Folder of the copies that `ragspine backup` makes; empty for one beside the store.")
    copies_keep: int = _setting(7, "How many copies are kept.", least=1)
    backup_cron: str = _setting("", "When a copy is made, as cron writes it; empty for never.", form=_CRON)
    analyzer: str = _setting(
        "default",
        "How texts become search terms: `default` (stems and spellings), `stemmed` or `plain` (words as they are).",
        choices=("default", "stemmed", "plain"),
    )
    chunker: str = _setting("none", "How documents are cut, as `make_chunker` reads it.")
    max_chars: int = _setting(480, "Longest chunk, in code points.", least=1)
    overlap_chars: int = _setting(80, "How much of a chunk may be carried into the next, in code points.", least=0)
    relation_extractor: str = _setting("none", "Which relations are taken from the text.")
    llm_model: str = _setting("", "Model that `llm` extraction asks.")
    llm_base_url: str = _setting(
        "",
        "Endpoint of that model, where it is not the provider's own.",
        form="an http or https address such as http://127.0.0.1:8000/v1",
        secret=True,
    )
    llm_time_limit_s: float = _setting(60.0, "Seconds that the model may take for one answer.", above=0)
    llm_concurrency: int = _setting(4, "Questions put to the model at the same time.", least=1)
    max_llm_calls: int = _setting(0, "Most questions put to the model in one run; 0 for no limit.", least=0)
    llm_token_budget: int = _setting(0, "Most tokens spent on the model in one run; 0 for no limit.", least=0)
    llm_dry_run: bool = _setting(False, "Ask the model nothing, and say what it would cost.")
    max_relations: int = _setting(64, "Most edges taken from one chunk by a model.", least=1)
    max_relations_total: int = _setting(0, "Most edges taken by a model in one run; 0 for no limit.", least=0)
    review: str = _setting("data/review.csv", "Decisions about a model's edges, CSV; may be missing.")
    workers: int = _setting(0, "Parser processes; 0 is one per processor, at most four.", least=0)
    time_limit_s: float = _setting(60.0, "Seconds that parsing one file may take.", above=0)
    max_file_bytes: int = _setting(100 * 1024 * 1024, "Largest file that is parsed, in bytes.", least=1)
    wait_s: float = _setting(30.0, "Seconds to wait while another process holds the store.", least=0)
    turn_s: float = _setting(900.0, "Seconds to wait for runs that started earlier to finish.", least=0)
    starting_s: float = _setting(1800.0, "Seconds after which a run that no process took up counts as dead.", least=0)
    runs_kept: int = _setting(200, "How many runs stay in the history; 0 for all of them.", least=0)
    automation: bool = _setting(True, "Whether schedules and sensors are on when nobody has switched them in the UI.")
    refresh_cron: str = _setting("15 2 * * *", "When everything is brought up to date, as cron writes it.", form=_CRON)
    checks_cron: str = _setting("45 * * * *", "When every promise is proved, as cron writes it.", form=_CRON)
    timezone: str = _setting("UTC", "Time zone of the two schedules.", form="a time zone such as UTC or Europe/Rome")
    watch_interval_s: int = _setting(60, "Seconds between two looks at source, profile and facts.", least=1)
    fresh_for_h: float = _setting(36.0, "Hours after which what is served counts as stale.", above=0)
    notifier: str = _setting(
        "",
        "Called with each failed run: `module:function`; empty for none.",
        form="a function that takes a FailedRun, as `module:function`",
    )
    clients: str = _setting(DEFAULT_CLIENTS, "Who may ask the service, TOML; without that file, this machine only.")
    serve_host: str = _setting("127.0.0.1", "Address that the service listens on.")
    serve_port: int = _setting(8000, "Port that the service listens on.", least=0, most=65_535)
    serve_origins: str = _setting(
        "", "Addresses under which a proxy shows the service, separated by commas.", form=_ORIGINS
    )
    request_log: str = _setting("", "Folder of the service's request log; empty for one beside the snapshots.")
    ui_origins: str = _setting(
        "",
        "Addresses under which a proxy shows the UI, separated by commas.",
        form=_ORIGINS,
    )
    allow_mass_removal: bool = _setting(False, "Go on although more than half of the documents are gone.")
    allow_lower_labels: bool = _setting(
        False, "Go on although labels fall because what set them is gone: rows, keywords, the profile."
    )

    def __post_init__(self) -> None:
        """Refuse a value that is not allowed."""
        for setting in SETTINGS.values():
            setting.require(getattr(self, setting.name))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ServiceConfig:
        """Read the settings from the environment; what is not set keeps its default.

        Raises:
            SettingError: a variable does not hold a value that is allowed, or is called almost as a setting is: a typing
                error must not leave a protection at its default.
        """
        environment = os.environ if environment is None else environment
        _refuse_misspelt(environment)
        given: dict[str, Value] = {
            name: setting.read(environment[setting.variable].strip())
            for name, setting in SETTINGS.items()
            if environment.get(setting.variable, "").strip()
        }
        source = str(given.get("source", DEFAULT_SOURCE))
        if os.path.realpath(source) != os.path.realpath(DEFAULT_SOURCE):
            given = {"profile": "", "facts": "", "review": "", "questions": "", **given}
            if "store" not in given:
                # Imported here: these libraries take longer to load than a command line may take to answer.
                from .pipeline import suggested_store

                given["store"] = suggested_store(source)
        return cls(**given)  # pyright: ignore[reportArgumentType]

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


SETTINGS: Mapping[str, Setting] = {
    each.name: Setting(each.name, each.default, **each.metadata)  # pyright: ignore[reportArgumentType]
    for each in fields(ServiceConfig)
}
"""Every setting by its name, in the order of `ServiceConfig`."""


def environment_name(setting: str) -> str:
    """Return the environment variable of a setting."""
    return f"{_PREFIX}{setting.upper()}"


def _refuse_misspelt(environment: Mapping[str, str]) -> None:
    known = [name.upper() for name in (*SETTINGS, *_KEYS)]
    for variable in environment:
        name = variable.removeprefix(_PREFIX)
        if name not in (variable, *known) and environment[variable].strip():
            near = get_close_matches(name, known, 1, cutoff=0.8)
            if near:
                raise SettingError(f"There is no setting {variable}. Did you mean {environment_name(near[0])}?")


def settings_page() -> str:
    """Return the page of the documentation that lists every setting; `python -m ragspine_assets.config` prints it."""
    rows = [
        f"| `{each.variable}` | {_shown(each.default)} | {_must_be(each)} | {each.meaning} |"
        for each in SETTINGS.values()
    ]
    return "\n".join((*_PAGE, *rows)) + "\n"


def _shown(default: Value) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"`{default}`" if str(default) else ""


def _must_be(setting: Setting) -> str:
    if isinstance(setting.default, bool):
        return "on or off"
    return setting.form or ("" if isinstance(setting.default, str) and not setting.choices else setting.allowed)


_PAGE = (
    "# Settings",
    "",
    "Each is an environment variable, read when a command starts; without one its default counts. `make run` takes `SOURCE`,",
    "`STORE`, `PROFILE`, `FACTS`, `CHUNKER`, `EXTRACTOR`, `ALLOW_MASS_REMOVAL` and `ALLOW_LOWER_LABELS` for short. A source of your",
    "own gets a store of its own, and none of the demo's profile, facts and review, unless you name them. Keys of models are",
    "read from the environment and are no settings (README).",
    "",
    "| variable | default | must be | meaning |",
    "|---|---|---|---|",
)


if __name__ == "__main__":
    print(settings_page(), end="")
