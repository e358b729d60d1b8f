"""What the parts of one corpus are called in a code location that may hold others (SPEC 6.1).

Belongs here: how keys of assets, resources, jobs, schedules, sensors and steps follow from a prefix. Without a prefix each
is called as it is documented. Names in the code and in `ServiceConfig` are those without one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature

from dagster import AssetExecutionContext, AssetKey, AssetsDefinition, MaterializeResult, asset

from ragspine_assets.errors import SettingError

from .boundary import step_boundary

_JOIN = "__"
_PART = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Naming:
    """How the parts of one corpus are called.

    Attributes:
        key_prefix: what stands before the key of every asset.
        group: the group of every asset; '' leaves each in its own.

    Raises:
        ValueError: a part of the prefix or the group has other characters than letters, digits and underscores.
    """

    key_prefix: tuple[str, ...] = ()
    group: str = ""

    def __post_init__(self) -> None:
        """Refuse what Dagster would refuse later, in other words and for something that nobody named."""
        for what, value in (*(("key_prefix", part) for part in self.key_prefix), ("group", self.group or "_")):
            if not _PART.fullmatch(value):
                raise SettingError(f"{what} may hold letters A-Z, digits and underscores; it is {value!r}.")

    @classmethod
    def of(cls, key_prefix: str | Sequence[str] = (), group: str = "") -> "Naming":
        """Return the naming for a prefix of one part, given as a string, or of several."""
        return cls((key_prefix,) if isinstance(key_prefix, str) and key_prefix else tuple(key_prefix), group)

    @classmethod
    def around(cls, key: AssetKey) -> "Naming":
        """Return the naming that an asset of ours has its key from."""
        return cls(tuple(key.path[:-1]))

    def asset_key(self, name: str) -> AssetKey:
        """Return the key of an asset."""
        return AssetKey([*self.key_prefix, name])

    def name(self, name: str) -> str:
        """Return the name of a resource, job, schedule, sensor or step, which Dagster knows by one word each."""
        return _JOIN.join((*self.key_prefix, name))


@dataclass(frozen=True)
class Stage:
    """An asset before it has a key.

    Attributes:
        body: does the work; its parameters are named after the resources that it takes, but for ``context``.
        deps: the stages it reads from.
        group: its group where nobody says otherwise.
        kinds: what it is made with, for the UI.
        code_version: changes when the same input gives another output.
        description: what it is, in a few sentences.
    """

    body: Callable[..., MaterializeResult]
    deps: tuple["Stage", ...]
    group: str
    kinds: frozenset[str]
    code_version: str
    description: str
    name: str = field(init=False)

    def __post_init__(self) -> None:
        """Take the name of the body."""
        object.__setattr__(self, "name", self.body.__name__)

    def define(self, naming: Naming) -> AssetsDefinition:
        """Return the asset."""
        taken = list(signature(self.body).parameters)
        resources = [name for name in taken if name != "context"]
        guarded = step_boundary(self.name)(self.body)

        @asset(
            key=naming.asset_key(self.name),
            deps=[naming.asset_key(stage.name) for stage in self.deps],
            group_name=naming.group or self.group,
            kinds=set(self.kinds),
            owners=["team:data-engineering"],
            code_version=self.code_version,
            description=self.description,
            required_resource_keys={naming.name(resource) for resource in resources},
        )
        def materialise(context: AssetExecutionContext) -> MaterializeResult:
            given = {resource: getattr(context.resources, naming.name(resource)) for resource in resources}
            return guarded(**({"context": context} if "context" in taken else {}), **given)

        return materialise


def stage(
    *, group: str, kinds: set[str], code_version: str, description: str, deps: Sequence[Stage] = ()
) -> Callable[[Callable[..., MaterializeResult]], Stage]:
    """Make a `Stage` of the function that does its work."""
    return lambda body: Stage(body, tuple(deps), group, frozenset(kinds), code_version, description)
