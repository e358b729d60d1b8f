"""One line on a terminal that says where a run is.

Belongs here: turning what a run logs into that line. What is said is said by the steps, for the UI too; their lines hold no
names and no text. Where output is piped there is none.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dagster import DagsterEventType, DagsterInstance
from dagster._core.events.log import EventLogEntry

_FRAMES_PER_S = 8


@contextmanager
def shown_progress(instance: DagsterInstance, run_id: str, steps: int) -> Iterator[None]:
    """Show on a terminal what a run of this process is at, while the block runs; the line goes when it ends.

    Args:
        instance: where the run is kept.
        run_id: the run.
        steps: how many steps it has.
    """
    if not sys.stderr.isatty():
        yield
        return
    # Imported here: whoever pipes need not wait for it.
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    # Dagster turns the descriptor of standard error to a file of its own while a step runs.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") as terminal:
        console = Console(file=terminal, force_terminal=True)
        spinner = Spinner("dots", "starting")

        def show(line: str) -> None:
            room = max(console.width - 4, 10)
            spinner.update(text=Text(line if len(line) <= room else f"{line[: room - 1]}…"))

        instance.add_event_listener(run_id, listener(show, steps))
        with Live(
            spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False,
            refresh_per_second=_FRAMES_PER_S,
        ):  # fmt: skip
            yield


def listener(show: Callable[[str], None], steps: int) -> Callable[[EventLogEntry], None]:
    """Return what is to be called with each entry of a run's log, and shows a line where there is a new one."""
    ended = 0

    def listen(entry: EventLogEntry) -> None:
        nonlocal ended
        event = entry.dagster_event
        if event is None:
            if entry.step_key and entry.level == logging.INFO:
                show(f"{_in_words(entry.step_key)}: {entry.user_message}")
            return
        ended += event.is_step_success
        if event.event_type is DagsterEventType.STEP_START:
            show(f"{_in_words(event.step_key)} (step {ended + 1} of {steps})")
        elif event.event_type is DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            show(f"{_in_words(event.step_key)}: {_in_words(check.check_name)}: {'holds' if check.passed else 'BROKEN'}")

    return listen


def _in_words(name: str | None) -> str:
    return (name or "").replace("_", " ")
