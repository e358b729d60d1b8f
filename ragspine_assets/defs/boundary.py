"""What happens to an exception at the edge of a step (SPEC 6.1).

Belongs here: the one place where foreign exceptions are translated. Errors of DuckDB, pandas, Arrow and codecs quote the
data they fail on; outside the store only their type, the stage and the place in the code may appear.
"""

import functools
import os
import traceback
from collections.abc import Callable
from typing import TypeVar

import duckdb
from dagster import Failure

from ragspine_assets.errors import RagspineError, is_cancel
from ragspine_assets.store.database import engine_error

_OWN_FILES = ("serving/", "store/database.py")

Result = TypeVar("Result")


def step_boundary(stage: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Decorate a step so that no foreign exception leaves it.

    Our own errors pass with their message; any other exception, a panic of a native library and ``sys.exit`` among
    them, is reduced to its type, the stage and the place. The step then raises a `Failure` to which the original
    exception is not attached. A cancelled step stays one, and says so.

    Args:
        stage: the asset or check, as it should be named in the message.
    """

    def decorate(step: Callable[..., Result]) -> Callable[..., Result]:
        @functools.wraps(step)
        def guarded(*arguments: object, **named: object) -> Result:
            cancelled = False
            try:
                return step(*arguments, **named)
            except Failure as failure:
                message = failure.description or ""
            except RagspineError as error:
                message = str(error)
            except OSError as error:
                message = (
                    f"{_what_it_is_about(error)} cannot be read or written in {stage}, at {_place(error)}: "
                    f"{_reason(error)}. Change its permissions or make room, then run again."
                )
            except BaseException as error:
                cancelled = is_cancel(error)
                known = engine_error(error) if isinstance(error, duckdb.Error) else None
                message = (
                    str(known)
                    if known
                    else (
                        f"{type(error).__name__} in {stage}, at {_place(error)}. The message is withheld, since it may quote "
                        "a document. Run again; if it stays, report the type and the place."
                    )
                )
            if cancelled:
                raise KeyboardInterrupt(f"{stage} was cancelled. Run again: the next run finishes what this one began.")
            # Raised outside of any handler, so that no context carries the original message along.
            raise Failure(description=message)

        return guarded

    return decorate


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}ragspine_assets{os.sep}" in frame.filename] or list(frames)
    if not own:
        return "an unknown place"
    path = own[-1].filename.rpartition(f"{os.sep}ragspine_assets{os.sep}")[2]
    return f"{path}:{own[-1].lineno}"


def _reason(error: OSError) -> str:
    """Return what the system says about an error by its number: other words of it may come from anywhere."""
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__


def _what_it_is_about(error: OSError) -> str:
    """Name the path only where the code touches nothing but the store's and the snapshots' own files."""
    if _place(error).startswith(_OWN_FILES) and isinstance(error.filename, (str, os.PathLike)):
        return os.fspath(error.filename)
    return "A file or folder"
