"""How often a process that runs jobs looks for garbage (https://docs.python.org/3/library/gc.html).

Belongs here: settings of the collector of reference cycles. What is in no cycle is freed at once, whatever they are.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_OBJECTS = 50_000


@contextmanager
def kept_for_good() -> Iterator[None]:
    """Look for no garbage while the block runs, nor ever again through what there is at its end; for imports.

    They make hundreds of thousands of objects that stay: going through them takes a sixth of the time, each time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def look_less_often() -> None:
    """Let more new objects come together before they are looked through; for a process that does nothing but run jobs."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
