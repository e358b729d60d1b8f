"""No words of a foreign exception leave a step, and a cancelled step stays cancelled (SPEC 6.1)."""

import pytest
from dagster import Failure
from dagster._core.errors import DagsterExecutionInterruptedError

from ragspine_assets.defs.boundary import step_boundary

SECRET = "Projekt Seerose, 4711"


class PanicError(BaseException):
    """What a native library's panic looks like from here."""


def raising(error: BaseException) -> object:
    @step_boundary("chunks")
    def step() -> None:
        raise error

    return step


@pytest.mark.parametrize(
    "error", [PanicError(SECRET), SystemExit(SECRET), GeneratorExit(SECRET), ValueError(SECRET), MemoryError(SECRET)]
)
def test_whatever_a_step_raises_its_words_stay_inside(error):
    with pytest.raises(Failure) as caught:
        raising(error)()
    assert type(error).__name__ in caught.value.description
    assert SECRET not in caught.value.description
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(SECRET), DagsterExecutionInterruptedError(SECRET)])
def test_a_cancelled_step_stays_cancelled_and_says_so(error):
    with pytest.raises(KeyboardInterrupt, match="chunks was cancelled") as caught:
        raising(error)()
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None
