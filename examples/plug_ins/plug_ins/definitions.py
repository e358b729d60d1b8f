"""A service with an extractor of its own; load it with `dagster dev -m plug_ins.definitions`."""

from ragspine_assets.defs import build_defs
from ragspine_assets.defs.resources import RelationExtractorResource
from ragspine_assets.graph import RelationExtractor
from ragspine_assets.llm import LLMProvider
from ragspine_assets.policy import DomainProfile
from ragspine_assets.store import ChunkStore

from .extractor import ReportingLines


class ReportingLinesResource(RelationExtractorResource):
    """The extractor of this team, whatever the setting says."""

    def make(
        self, profile: DomainProfile, provider: LLMProvider | None = None, store: ChunkStore | None = None
    ) -> RelationExtractor:
        """Return it; profile, model and store are not needed."""
        del profile, provider, store
        return ReportingLines()


defs = build_defs(resource_overrides={"relation_extractor": ReportingLinesResource()})
