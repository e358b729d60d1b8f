"""Dagster and nothing but Dagster: assets, checks, jobs and resources over the library."""

from .process import kept_for_good

with kept_for_good():
    from .build import build_defs

__all__ = ["build_defs"]
