"""The code location that Dagster loads."""

from dagster import Definitions, in_process_executor

from .defs import build_defs
from .defs.process import settle

# What the UI materialises by itself has the executor of the location: this one is ours, so it is the one of our jobs.
defs = Definitions.merge(build_defs(), Definitions(executor=in_process_executor))
settle()
