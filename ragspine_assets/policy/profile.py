"""The domain profile: the words of one deployment, read from TOML (SPEC 5.1).

Nothing is built in. A section that is absent is empty; a value of the wrong type is an error that names the file and
the key, and one message lists every one of them.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from ragspine_assets.errors import RagspineError, SettingError
from ragspine_assets.policy.folding import fold_text
from ragspine_assets.policy.labelling import SensitivityPolicy
from ragspine_assets.policy.lattice import Sensitivity, is_known_label
from ragspine_assets.policy.toml import read_toml


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


class ProfileError(RagspineError, ValueError):
    """A profile that cannot be read; the message names the file, every faulty key, and what is expected there."""


def _plain(value: object) -> object:
    """Return a value of a profile as what JSON knows."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, DimensionSpec | SensitivityPolicy):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def _freeze(instance: object, names: Sequence[str]) -> None:
    for name in names:
        object.__setattr__(instance, name, MappingProxyType(dict(getattr(instance, name))))


def _rebuild(kind: Callable[..., object], values: Mapping[str, object]) -> object:
    return kind(**values)


@dataclass(frozen=True)
class DimensionSpec:
    """One declared dimension of facts, such as metric, entity, period or geography (SPEC 5.1).

    Attributes:
        name: the dimension's name.
        label: the name to show.
        kind: ``categorical``, ``temporal`` or ``measure``.
        synonyms: alias to controlled value.
        units: controlled value to unit.
        labels: controlled value to the name to show.
        default: the controlled value when none is given.
        required: whether a value must be given.
        clarify: what a dialogue does when it is not: ``ask_first``, ``assume``, ``none``.
        identity: whether the dimension is part of a fact's key.
        expand: whether several values make several questions.
        derived_from: the dimension that this one is derived from.
        derivation: controlled value of that dimension to controlled value of this one.
        whitelist_in_fabrication_check: whether its tokens are no invented numbers.
        fabrication_whitelist_regex: what such a token looks like.
    """

    name: str
    label: str = ""
    kind: str = "categorical"
    synonyms: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None
    required: bool = False
    clarify: str = "assume"
    identity: bool = True
    expand: bool = True
    derived_from: str | None = None
    derivation: Mapping[str, str] = field(default_factory=dict)
    whitelist_in_fabrication_check: bool = False
    fabrication_whitelist_regex: str | None = None

    def __post_init__(self) -> None:
        """Make the mappings read-only."""
        _freeze(self, ("synonyms", "units", "labels", "derivation"))

    def __hash__(self) -> int:
        """Hash by content; the mappings have no hash of their own."""
        return hash(json.dumps(_plain(self), sort_keys=True))

    def __reduce__(self) -> tuple[object, ...]:
        """Let a specification travel between processes, which read-only mappings do not."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return _rebuild, (type(self), {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()})


@dataclass(frozen=True)
class DomainProfile:
    """The home company, its entities, the external ones, the labelling policy and the dimensions (SPEC 5.1).

    Attributes:
        home_company_name: the home company's name, as shown.
        home_entity_code: the code of the home company as an entity.
        home_entity_synonyms: alias to entity code.
        entity_geography: entity code to geography.
        external_entities: alias to the name to show, of competitors and other outsiders.
        home_entity_labels: entity code to the name to show.
        sensitivity: how documents without a label are labelled.
        dimensions: the declared dimensions, in the order of the file.
    """

    home_company_name: str = ""
    home_entity_code: str = ""
    home_entity_synonyms: Mapping[str, str] = field(default_factory=dict)
    entity_geography: Mapping[str, str] = field(default_factory=dict)
    external_entities: Mapping[str, str] = field(default_factory=dict)
    home_entity_labels: Mapping[str, str] = field(default_factory=dict)
    sensitivity: SensitivityPolicy = field(default_factory=SensitivityPolicy)
    dimensions: tuple[DimensionSpec, ...] = ()

    def __post_init__(self) -> None:
        """Make the mappings read-only and the sequences tuples."""
        _freeze(self, ("home_entity_synonyms", "entity_geography", "external_entities", "home_entity_labels"))
        object.__setattr__(self, "dimensions", tuple(self.dimensions))

    def __hash__(self) -> int:
        """Hash by content; the mappings have no hash of their own."""
        return hash(self.digest())

    def __reduce__(self) -> tuple[object, ...]:
        """Let a profile travel between processes, which read-only mappings do not."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return _rebuild, (type(self), {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()})

    def digest(self) -> str:
        """Return a hash of the profile's content; the order of keys does not change it."""
        values = {
            item.name: _plain(getattr(self, item.name))
            for item in dataclasses.fields(self)
            if item.name != "dimensions"
        }
        values["dimensions"] = {spec.name: _plain(spec) for spec in self.dimensions}
        return hashlib.sha256(json.dumps(values, sort_keys=True, ensure_ascii=True).encode()).hexdigest()

    def dimension(self, name: str) -> DimensionSpec | None:
        """Return the dimension of a name, None if the profile declares none."""
        return next((spec for spec in self.dimensions if spec.name == name), None)

    def entity_codes(self) -> tuple[str, ...]:
        """Return every entity code that the profile knows, sorted: of the home company and of the others of its own."""
        codes = {
            self.home_entity_code,
            *self.home_entity_synonyms.values(),
            *self.entity_geography,
            *self.home_entity_labels,
        }
        if spec := self.dimension("entity"):
            codes.update((*spec.synonyms.values(), *spec.labels))
        return tuple(sorted(codes - {""}))

    def metric_codes(self) -> tuple[str, ...]:
        """Return every metric code that the profile knows, sorted: synonyms, units and labels of ``metric``."""
        spec = self.dimension("metric")
        return tuple(sorted({*spec.synonyms.values(), *spec.units, *spec.labels} - {""})) if spec else ()

    def synonym_entities(self) -> Mapping[str, str]:
        """Return every name of our entities to its code (SPEC 5.1).

        The names shown count as much as synonyms do. Where one name stands for two codes, a synonym wins over a name
        shown, and what ``[home]`` says over the dimension ``entity``.
        """
        spec = self.dimension("entity")
        shown = (*self.home_entity_labels.items(), *(spec.labels.items() if spec else ()))
        named: dict[str, str] = {}
        for name, code in (
            *self.home_entity_synonyms.items(),
            *(spec.synonyms.items() if spec else ()),
            *((name, code) for code, name in shown if name),
        ):
            named.setdefault(name, code)
        return MappingProxyType(named)


_Value = TypeVar("_Value")
_NAMES: Mapping[type, str] = {str: "a string", bool: "true or false", dict: "a table", list: "a list of strings"}


class _Reader:
    """Takes values out of a parsed file and notes each one that is not what it should be."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def take(self, table: Mapping[str, object], key: str, where: str, kind: type[_Value], default: _Value) -> _Value:
        value = table.get(key, default)
        if isinstance(value, kind):
            return value
        self.problems.append(f"{where}{key} must be {_NAMES[kind]}, not {_toml_name(value)}")
        return default

    def words(self, table: Mapping[str, object], key: str, where: str) -> dict[str, str]:
        found = self.take(table, key, where, dict, {})
        result: dict[str, str] = {}
        for name, value in found.items():
            if not isinstance(value, str):
                self.problems.append(f"{where}{key}.{name} must be a string, not {_toml_name(value)}")
            elif not fold_text(name):
                self.problems.append(f"{where}{key} has a blank key")
            else:
                result[name] = value
        return result

    def strings(self, table: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
        found = self.take(table, key, where, list, [])
        wrong = [number for number, value in enumerate(found, start=1) if not isinstance(value, str)]
        for number in wrong:
            self.problems.append(f"{where}{key}: entry {number} must be a string, not {_toml_name(found[number - 1])}")
        return tuple(value for value in found if isinstance(value, str))

    def refuse_unknown(self, table: Mapping[str, object], known: Iterable[str], where: str) -> None:
        """Note each key that means nothing here: a typing error must not switch a protection off (SPEC 1.8)."""
        known = sorted(known)
        for key in table:
            if key not in known:
                what = "section" if isinstance(table[key], dict) else "key"
                self.problems.append(f"{where}{key} is an unknown {what}{_nearest(key, known, where)}")


_POLICY_KEYS = tuple(item.name for item in dataclasses.fields(SensitivityPolicy) if item.name != "labels")
_DIMENSION_KEYS = tuple(item.name for item in dataclasses.fields(DimensionSpec))
_HOME_KEYS = ("company_name", "entity_code", "synonyms", "geography", "labels")
_SECTIONS = ("home", "external_entities", "sensitivity", "labels", "dimensions")


def _nearest(key: str, known: Sequence[str], where: str) -> str:
    """Return ``; did you mean ...?`` for a key that is not known in a table, from that table or from any other."""
    elsewhere = {
        **{name: name for name in _SECTIONS},
        **{name: f"home.{name}" for name in _HOME_KEYS},
        **{name: f"dimensions.<name>.{name}" for name in _DIMENSION_KEYS},
        **{name: f"sensitivity.{name}" for name in _POLICY_KEYS},
    }
    folded = re.sub(r"[\W_]+", "_", fold_text(key))
    for candidates in ({name: f"{where}{name}" for name in known}, elsewhere):
        held = [name for name in candidates if folded and (folded in name or name in folded)]
        close = difflib.get_close_matches(folded, candidates, n=1, cutoff=0.6) or sorted(held, key=len)[:1]
        if close:
            return f"; did you mean {candidates[close[0]]}?"
    nearest = max(known, key=lambda name: difflib.SequenceMatcher(None, folded, name).ratio(), default="")
    return f"; the nearest known one is {where}{nearest}, allowed are {', '.join(known)}"


def _toml_name(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    names: dict[type, str] = {str: "a string", int: "a number", float: "a number", dict: "a table", list: "a list"}
    return names.get(type(value), "a date or time")


def load_profile(path: str | Path) -> DomainProfile:
    """Read a domain profile from a TOML file (SPEC 5.1).

    Args:
        path: the file, in UTF-8.

    Returns:
        The profile.

    Raises:
        ProfileError: if there is no such file, it is no TOML, values have the wrong type, or a section or key is not
            known, which is named with the nearest known one; every fault is listed.
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        message = f"profile {path}: cannot be read ({error.strerror}); name an existing TOML file or leave it unset"
        raise ProfileError(message) from None
    except UnicodeDecodeError:
        message = f"profile {path}: is not UTF-8; save it as UTF-8"
        raise ProfileError(message) from None
    try:
        data = read_toml(text)
    except SettingError as fault:
        message = f"profile {path}: is {fault}"
        raise ProfileError(message) from None
    reader = _Reader()
    profile = _profile(data, reader)
    if reader.problems:
        message = f"profile {path}: " + "; ".join(reader.problems)
        raise ProfileError(message)
    return profile


def _profile(data: Mapping[str, object], reader: _Reader) -> DomainProfile:
    reader.refuse_unknown(data, _SECTIONS, "")
    home = reader.take(data, "home", "", dict, {})
    reader.refuse_unknown(home, _HOME_KEYS, "home.")
    dimensions = reader.take(data, "dimensions", "", dict, {})
    return DomainProfile(
        home_company_name=reader.take(home, "company_name", "home.", str, ""),
        home_entity_code=reader.take(home, "entity_code", "home.", str, ""),
        home_entity_synonyms=reader.words(home, "synonyms", "home."),
        entity_geography=reader.words(home, "geography", "home."),
        external_entities=reader.words(data, "external_entities", ""),
        home_entity_labels=reader.words(home, "labels", "home."),
        sensitivity=_policy(reader.take(data, "sensitivity", "", dict, {}), reader.words(data, "labels", ""), reader),
        dimensions=tuple(_dimension(name, value, reader) for name, value in dimensions.items()),
    )


def _policy(table: Mapping[str, object], labels: Mapping[str, str], reader: _Reader) -> SensitivityPolicy:
    where = "sensitivity."
    reader.refuse_unknown(table, _POLICY_KEYS, where)
    markings = reader.take(table, "markings", where, dict, {})
    phrases = {level: reader.strings(markings, level, f"{where}markings.") for level in markings}
    unlabelled = [name for name, level in labels.items() if not is_known_label(level)]
    allowed = ", ".join(label.value for label in Sensitivity)
    reader.problems += [
        f"labels.{name}: {labels[name]!r} is no sensitivity label; use one of {allowed}" for name in unlabelled
    ]
    try:
        return SensitivityPolicy(
            default_level=reader.take(table, "default_level", where, str, "INTERNAL"),
            escalate_unknown_to_restricted=reader.take(table, "escalate_unknown_to_restricted", where, bool, False),
            restricted_filename_patterns=reader.strings(table, "restricted_filename_patterns", where),
            restricted_keywords=reader.strings(table, "restricted_keywords", where),
            markings=phrases,
            labels={name: level for name, level in labels.items() if name not in unlabelled},
        )
    except ValueError as error:
        reader.problems.append(f"{where}{error}")
        return SensitivityPolicy(default_level="RESTRICTED")


def _dimension(name: str, value: object, reader: _Reader) -> DimensionSpec:
    where = f"dimensions.{name}."
    if not isinstance(value, dict):
        reader.problems.append(f"dimensions.{name} must be a table, not {_toml_name(value)}")
        return DimensionSpec(name)
    reader.refuse_unknown(value, _DIMENSION_KEYS, where)

    def optional(key: str) -> str | None:
        return reader.take(value, key, where, str, "") if key in value else None

    def flag(key: str, *, default: bool) -> bool:
        return reader.take(value, key, where, bool, default)

    return DimensionSpec(
        name=name,
        label=reader.take(value, "label", where, str, ""),
        kind=reader.take(value, "kind", where, str, "categorical"),
        synonyms=reader.words(value, "synonyms", where),
        units=reader.words(value, "units", where),
        labels=reader.words(value, "labels", where),
        default=optional("default"),
        required=flag("required", default=False),
        clarify=reader.take(value, "clarify", where, str, "assume"),
        identity=flag("identity", default=True),
        expand=flag("expand", default=True),
        derived_from=optional("derived_from"),
        derivation=reader.words(value, "derivation", where),
        whitelist_in_fabrication_check=flag("whitelist_in_fabrication_check", default=False),
        fabrication_whitelist_regex=optional("fabrication_whitelist_regex"),
    )
