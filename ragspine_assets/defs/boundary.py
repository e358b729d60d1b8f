"""What happens to an exception at the edge of a step (SPEC 6.1).

Belongs here: the one place where foreign exceptions are translated. Errors of DuckDB, pandas, Arrow and codecs quote the
data they fail on; outside the store only their type, the stage and the place in the code may appear.
"""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from dagster import Failure

from ..chunking import ChunkerError
from ..documents.metadata import MetadataError
from ..documents.pool import WorkerStartError
from ..documents.source import SourceError
from ..graph import FactsError
from ..policy import ProfileError
from ..store import StoreError

OURS: tuple[type[Exception], ...] = (StoreError, SourceError, ChunkerError, ProfileError, FactsError, MetadataError, WorkerStartError)
"""Exceptions whose messages were written for the outside."""


@contextmanager
def step_boundary(stage: str) -> Iterator[None]:
    """Let our own errors through with their message; reduce any other exception to type, stage and place.

    Args:
        stage: the asset or check that runs the block, as it should be named in the message.

    Raises:
        Failure: the block raised; the original exception is not attached.
    """
    try:
        yield
    except OURS as error:
        message = str(error)
    except Failure:
        raise
    except Exception as error:
        message = (
            f"{type(error).__name__} in {stage}, at {_place(error)}. The message is withheld, since it may quote a "
            "document. Run again; if it stays, report the type and the place."
        )
    else:
        return
    # Raised here and not in a handler, so that no context carries the original message along.
    raise Failure(description=message)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}ragspine_assets{os.sep}" in frame.filename] or list(frames)
    if not own:
        return "an unknown place"
    path = own[-1].filename.rpartition(f"{os.sep}ragspine_assets{os.sep}")[2]
    return f"{path}:{own[-1].lineno}"
