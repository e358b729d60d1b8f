"""What a run config may say (https://docs.dagster.io/guides/operate/configuration/run-configuration).

Belongs here: the config types that resources are launched with. Who may launch a run chooses how documents are cut and
which relations are taken from them. What protects documents is the service's: a run config may repeat it and never change
it, whoever launches. Both are refused before there is a run. No type here reads an environment variable that a run config
names, since messages about wrong values show them.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self, cast

from dagster import Enum, EnumValue, Field, Permissive, Shape
from dagster._config.config_type import ConfigScalar, ConfigScalarKind, ConfigType
from dagster._config.errors import PostProcessingError
from dagster._core.definitions.definition_config_schema import DefinitionConfigSchema
from pydantic import ValidationError

from ragspine_assets.config import SETTINGS, Value, did_you_mean, environment_name

_KINDS = {bool: ConfigScalarKind.BOOL, int: ConfigScalarKind.INT, float: ConfigScalarKind.FLOAT}


def kept(setting: str, value: Value) -> Field:
    """Return a field that accepts the value the service was started with and no other.

    Args:
        setting: the setting of `ServiceConfig` that decides; '' for what no setting decides.
        value: its value.
    """
    return Field(_kept_type(setting, value), is_required=False, description=f"{_whose(setting)}: {value!r}.")


def one_of(name: str, choices: Sequence[str], value: str, description: str) -> Field:
    """Return a field with few choices, which the launchpad lists; `value` is the default and a choice in any case."""
    names = list(dict.fromkeys((*choices, value)))
    return Field(_Choices(f"{name} ({', '.join(names)}),", names), default_value=value, description=description)


def number_or_switch(value: bool | float, description: str) -> Field:
    """Return a field for a number or a switch; whether the value is legal is for `offered` to say."""
    return Field(type(value), default_value=value, description=description)


def parameters(value: Mapping[str, object], description: str) -> Field:
    """Return a field for named values that only the called code can judge."""
    return Field(Permissive(), default_value=dict(value), description=description)


def offered(
    name: str, fields: Mapping[str, Field], validate: Callable[[Mapping[str, object]], object]
) -> DefinitionConfigSchema:
    """Return the config schema of a resource.

    Args:
        name: of the resource, for messages.
        fields: what may be said.
        validate: raises a ValueError with one sentence where values are not legal together.
    """
    return DefinitionConfigSchema(Field(_Checked(name, fields, validate), is_required=False))


def explain(problem: ValueError, settings: Mapping[str, str], fields: Iterable[str]) -> str:
    """Return in one line which setting is wrong, what it is, what is allowed, and the nearest of that.

    Args:
        problem: what a resource raised when it was made.
        settings: the setting of `ServiceConfig` for each field of the resource that one decides.
        fields: names of all fields of the resource.
    """
    if not isinstance(problem, ValidationError):
        return str(problem)
    told = []
    for error in problem.errors(include_url=False):
        field = str(error["loc"][0]) if error["loc"] else ""
        setting = SETTINGS.get(settings.get(field, ""))
        if error["type"] == "extra_forbidden":
            told.append(f"There is no field {field}; there are {', '.join(fields)}.{did_you_mean(field, fields)}")
        elif setting and error["type"] != "value_error":
            told.append(str(setting.wrong(error["input"], called=field)))
        else:
            message = error["msg"].removeprefix("Value error, ")
            was = "" if setting and setting.secret else f" is {error['input']!r}"
            given = f"{field}{f' ({setting.variable})' if setting else ''}{was}: " if field else ""
            told.append(f"{given}{message[:1].lower() if given else message[:1]}{message[1:]}".rstrip(".") + ".")
    return " ".join(told)


class _Choices(Enum):
    """An enumeration whose key tells it from one of the same name with other choices."""

    def __init__(self, name: str, choices: Sequence[str]) -> None:
        super().__init__(name, [EnumValue(choice) for choice in choices])
        self.key = _key(name, list(choices))


class _KeptScalar(ConfigScalar):
    """A number or a switch that has the one value it was made with."""

    def __init__(self, setting: str, value: bool | float) -> None:
        super().__init__(_key("kept", [setting, value]), _whose(setting), _KINDS[type(value)])
        self._setting = setting
        self._value = value

    def post_process(self, value: object) -> object:
        """Refuse another value.

        Raises:
            PostProcessingError: the value differs; the message names the variable to set.
        """
        if value != self._value:
            raise PostProcessingError(f"{_whose(self._setting)}.")
        return value


class _Checked(Shape):
    """A shape whose values are judged together before there is a run."""

    def __new__(cls, *_: object) -> Self:
        """Return a shape of its own: equal ones share an object that would judge by the values of another service."""
        made = object.__new__(cls)
        made._initialized = False
        return made

    def __init__(
        self, name: str, fields: Mapping[str, Field], validate: Callable[[Mapping[str, object]], object]
    ) -> None:
        super().__init__(dict(fields))
        self.key = f"{name}.{self.key}"
        self._validate = validate

    def post_process(self, value: object) -> object:
        """Refuse values that are not legal together.

        Raises:
            PostProcessingError: the message says which, what they are and what is allowed.
        """
        try:
            self._validate(cast("Mapping[str, object]", value))
        except ValueError as problem:
            raise PostProcessingError(str(problem)) from None
        return value


def _kept_type(setting: str, value: Value) -> ConfigType:
    if isinstance(value, str):
        # Dagster takes no name for two kinds of types, and those of numbers are called after no setting too.
        return _Choices(_whose(setting) if setting else "of these definitions (no setting changes it)", [value])
    return _KeptScalar(setting, value)


def _whose(setting: str) -> str:
    if not setting:
        return "of this service (no setting changes it)"
    return f"{environment_name(setting)} (set it where the service is started; a run config cannot change it)"


def _key(name: str, values: object) -> str:
    return f"{name}.{hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]}"
