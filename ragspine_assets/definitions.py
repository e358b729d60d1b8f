"""The code location that Dagster loads."""

from .defs import build_defs
from .defs.garbage import look_less_often

defs = build_defs()
look_less_often()
