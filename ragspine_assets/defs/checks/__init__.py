"""Asset checks: one per invariant (https://docs.dagster.io/guides/test/asset-checks).

A check calls an audit, which re-derives the invariant from what is stored, and shows its verdict. An invariant is
enforced where data is written; a check that fails means that the data is wrong, and an exception that the check itself
broke.
"""

from .documents import DOCUMENT_CHECKS
from .graph import GRAPH_CHECKS
from .serving import SERVING_CHECKS
from .stored import CHUNK_CHECKS, STORE_CHECKS

ALL_CHECKS = (DOCUMENT_CHECKS, CHUNK_CHECKS, STORE_CHECKS, GRAPH_CHECKS, SERVING_CHECKS)

__all__ = ["ALL_CHECKS"]
