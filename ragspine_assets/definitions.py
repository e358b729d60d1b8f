"""The code location that Dagster loads."""

from .defs import build_defs

defs = build_defs()
