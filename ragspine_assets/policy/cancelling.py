"""What ends a program on purpose, told apart from what a plug-in threw (SPEC 6.1).

Native libraries panic with a `BaseException`, and ``sys.exit(text)`` is one too: at a seam these are failures like any
other, whose words may quote a document. A cancelled run has to stay one.
"""

from __future__ import annotations

import asyncio

# Dagster's own, by name: only `defs` knows Dagster, and every seam has to let it through.
_BY_NAME = "DagsterExecutionInterruptedError"


def is_cancel(error: BaseException) -> bool:
    """Tell whether an exception means that somebody cancelled, and is no failure of what was called."""
    return isinstance(error, KeyboardInterrupt | asyncio.CancelledError) or any(
        base.__name__ == _BY_NAME for base in type(error).__mro__
    )
