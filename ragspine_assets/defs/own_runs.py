"""Which runs of an instance are those of one corpus (https://docs.dagster.io/guides/build/assets/metadata-and-tags/tags).

Belongs here: telling them apart from those of other corpora and of other people's jobs, which the same instance keeps. A run
of ours carries a tag that names its store: from its job, or from the process that runs it. What is done to runs (see `runs`
and `history`) is done to these alone.
"""

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property

from dagster import DagsterRun

from .naming import Naming

_OURS = "ragspine/"
_STORE = f"{_OURS}store-"
_ALL_OF_IT = "own"
_A_PART_OF_IT = "shared"


@dataclass(frozen=True)
class OwnRuns:
    """The runs that work on one store.

    Attributes:
        store: the store's file.
        naming: what its assets are called.
    """

    store: str
    naming: Naming = field(default_factory=Naming)

    @cached_property
    def tag(self) -> str:
        """Name of the tag; a run over two corpora has one for each."""
        return _STORE + hashlib.sha256(os.fsencode(os.path.realpath(self.store))).hexdigest()[:16]

    @property
    def tags(self) -> dict[str, str]:
        """What a job tags its runs with whose every step is ours."""
        return {self.tag: _ALL_OF_IT}

    def tags_for(self, run: DagsterRun) -> dict[str, str]:
        """Return what a run is tagged with that has steps of ours."""
        return {self.tag: run.tags.get(self.tag) or (_ALL_OF_IT if self._selects_only_ours(run) else _A_PART_OF_IT)}

    def has(self, run: DagsterRun) -> bool:
        """Whether a run works on the store, or may: one that nothing names a store of may, if it is of this project."""
        if any(name.startswith(_STORE) for name in run.tags):
            return self.tag in run.tags
        return any(name.startswith(_OURS) for name in run.tags) or self._selects_only_ours(run)

    def untagged(self, run: DagsterRun) -> bool:
        """Whether a run is ours and says so by no tag: it is from before there was one, or never began."""
        return self.has(run) and self.tag not in run.tags

    def _selects_only_ours(self, run: DagsterRun) -> bool:
        # The assets import the resources, which sign runs.
        from .assets import ALL_STAGES

        keys = {self.naming.asset_key(stage.name) for stage in ALL_STAGES}
        selected = {*(run.asset_selection or ()), *(check.asset_key for check in run.asset_check_selection or ())}
        return bool(selected) and selected <= keys
