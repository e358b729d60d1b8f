"""A corpus as a component of anybody's Dagster project (https://docs.dagster.io/guides/build/components).

Belongs here: the attributes that a ``defs.yaml`` may give, which are the settings of `ServiceConfig`, and what is different
for somebody else's project: nothing is read from ``RAGSPINE_`` variables, and nothing of the demo is taken.
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

from dagster import Component, ComponentLoadContext, Definitions, Model, ResolutionContext, Resolvable
from pydantic import BaseModel, Field, ValidationError, create_model

from .config import ServiceConfig, environment_name
from .defs import build_defs
from .defs.run_config import explain
from .errors import SettingError

_PATHS = (
    "source", "store", "profile", "facts", "snapshots", "copies", "review", "clients", "request_log", "signing_key",
    "trusted_keys", "questions",
)  # fmt: skip
_NOT_OF_THE_DEMO = {
    "source": ...,
    "store": "",
    "profile": "",
    "facts": "",
    "review": "",
    "clients": "",
    "questions": "",
}

_Settings = create_model(
    "_Settings",
    __base__=Model,
    **{
        setting.name: (
            type(setting.default),
            Field(_NOT_OF_THE_DEMO.get(setting.name, setting.default), description=setting.metadata["meaning"]),
        )
        for setting in fields(ServiceConfig)
    },  # pyright: ignore[reportArgumentType, reportCallIssue]
)


class RagspineComponent(Component, Resolvable, _Settings):
    """A folder of documents as a chunk store, a relation graph and a retrieval snapshot, with the checks that prove them.

    Its attributes are the settings of `ServiceConfig`; ``source`` is the only one that must be there. A relative path is
    one from the project's root, where ``pyproject.toml`` lies. Without ``store`` the store lies in ``data/ragspine`` there and
    is named after the key prefix. Of settings, only attributes count: what ``RAGSPINE_`` variables say is not read, since
    several corpora may stand in one project. An attribute takes a variable in as ``{{ env.NAME }}``.

    Attributes:
        key_prefix: stands before the key of each asset, and before ``__`` in the names of resources, jobs, schedules and
            sensors; several corpora in one project need one each.
        group: group of all its assets; '' for those they have by themselves.
    """

    key_prefix: str | Sequence[str] = Field((), description="What stands before the key of each asset.")
    group: str = Field("", description="Group of all its assets; empty for those they have by themselves.")

    @classmethod
    def resolve_from_model(cls, context: ResolutionContext, model: BaseModel) -> Self:
        """Return the component that the attributes of a ``defs.yaml`` describe.

        Raises:
            ValueError: a value has a wrong type; the message says which, what it is and what is allowed.
        """
        try:
            return super().resolve_from_model(context, model)
        except ValidationError as error:
            raise SettingError(explain(error, {}, cls.model_fields)) from None

    def build_defs(self, context: ComponentLoadContext) -> Definitions:
        """Return the definitions of the corpus.

        Raises:
            ValueError: an attribute has a wrong value; the message says which, what it is and what is allowed.
        """
        try:
            return build_defs(self.config(context.project_root), key_prefix=self.key_prefix, group=self.group)
        except SettingError as error:
            raise SettingError(_in_attributes(str(error))) from None

    def config(self, project: Path) -> ServiceConfig:
        """Return the settings, with paths from a project's root."""
        given: dict[str, Any] = {setting.name: getattr(self, setting.name) for setting in fields(ServiceConfig)}
        prefix = (self.key_prefix,) if isinstance(self.key_prefix, str) else self.key_prefix
        given["store"] = given["store"] or f"data/ragspine/{'__'.join(filter(None, prefix)) or 'ragspine'}.duckdb"
        for name in _PATHS:
            # Only public keys may be several files, separated by commas.
            parts = map(str.strip, given[name].split(",")) if name == "trusted_keys" else (given[name],)
            given[name] = ",".join(str(project / part) for part in parts if part)
        return ServiceConfig(**given)


def _in_attributes(message: str) -> str:
    """Name attributes where a message names the variables that set them elsewhere."""
    for setting in sorted((setting.name for setting in fields(ServiceConfig)), key=len, reverse=True):
        message = message.replace(environment_name(setting), f"attribute {setting}")
    return message
