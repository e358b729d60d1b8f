"""What tests of jobs and checks share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from ragspine_assets.defs import plots
from ragspine_assets.defs.resources import SourceResource

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture(autouse=True)
def without_rendering(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of jobs in this process are laid out and not rendered: the words in them are shown, to be searched."""
    if "rendered" in request.keywords:
        return

    def words_of(figure: "Figure", words: str) -> dg.MarkdownMetadataValue:
        from matplotlib.text import Text

        shown = [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)]
        return dg.MetadataValue.md(" ".join((f"![{words}]()", *shown)))

    monkeypatch.setattr(plots, "_picture", words_of)


@pytest.fixture(autouse=True)
def without_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs in this process read files in it, but where processes are what is tested."""
    if "processes" not in request.keywords:
        monkeypatch.setattr(SourceResource, "processes", lambda source: 0)
