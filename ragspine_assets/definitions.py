"""The code location that Dagster loads."""

from .defs import build_defs
from .defs.process import settle

defs = build_defs()
settle()
