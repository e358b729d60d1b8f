"""Dagster and nothing but Dagster: assets, checks, jobs and resources over the library."""

from .build import build_defs

__all__ = ["build_defs"]
