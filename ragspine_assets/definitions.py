"""The code location that Dagster loads."""

from .defs.build import build_location
from .defs.process import settle

defs = build_location()
settle()
