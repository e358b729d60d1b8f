"""What a process does once that is there to run jobs and nothing else.

Belongs here: settings of Python and of libraries that hold for the whole process and change no result. Garbage means
reference cycles (https://docs.python.org/3/library/gc.html): what is in none is freed at once, whatever is set.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_OBJECTS = 50_000


@contextmanager
def no_garbage_sought() -> Iterator[None]:
    """Look for no garbage while the block runs; for imports.

    They make hundreds of thousands of objects that stay: going through them takes a sixth of the time, each time. Whose
    process it is does not matter, since afterwards all is as it was.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def settle() -> None:
    """Prepare for a run when everything is loaded: called by main modules, not by who only uses the library.

    What there is by then is never looked through for garbage again, new objects are in larger batches, and Arrow does not load pandas for each list it is given.
    """
    # Imported here: this module comes first, so that the others are imported under `no_garbage_sought`.
    from ragspine_assets.documents.arrow import leave_pandas_alone

    leave_pandas_alone()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
