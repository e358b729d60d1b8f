"""The code location that Dagster loads."""

import gc

from .defs import build_defs

defs = build_defs()
# What was imported stays: to look through it for garbage again and again takes a tenth of a short run.
gc.freeze()
