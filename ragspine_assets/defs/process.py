"""What a process does once that is there to run jobs and nothing else.

Belongs here: settings of Python and of libraries that hold for the whole process and change no result. Garbage means
reference cycles (https://docs.python.org/3/library/gc.html): what is in none is freed at once, whatever is set.
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


def settle() -> None:
    """Prepare for a run when everything is loaded: called by main modules, not by who only uses the library.

    New objects are looked through in larger batches for garbage, and Arrow does not load pandas for each list it is given.
    """
    # Imported here: this module comes first, so that the others are imported under `kept_for_good`.
    from ragspine_assets.documents.arrow import leave_pandas_alone

    leave_pandas_alone()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
