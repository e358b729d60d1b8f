"""Dagster and nothing but Dagster: assets, checks, jobs and resources over the library."""

from .process import no_garbage_sought

with no_garbage_sought():
    from .build import build_defs

__all__ = ["build_defs"]
