"""Plots for the UI, as Markdown with the picture in it (https://docs.dagster.io/guides/build/assets/metadata-and-tags).

Belongs here: drawing. Does not belong here: reading the store. A plot shows counts, codes and paths; never text.
"""

import base64
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from dagster import AssetExecutionContext, MarkdownMetadataValue, MetadataValue

from ragspine_assets.serving.servable_view import version_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL_COLOURS = {"PUBLIC": "#5ab4ac", "INTERNAL": "#4f43dd", "CONFIDENTIAL": "#d8a531", "RESTRICTED": "#c0392b"}
NODE_COLOURS = {"entity": "#4f43dd", "external_entity": "#c0392b", "metric": "#2a9d8f", "doc": "#9aa0a6"}
_INK = "#231f1b"
_BAR_PIXELS = 200


def _axes(width: float, height: float) -> "tuple[Figure, Axes]":
    # Drawing is imported by the step that draws: whoever only loads the definitions need not wait for it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK, labelsize=9)
    return figure, axes


def _picture(figure: "Figure", words: str) -> MarkdownMetadataValue:
    from matplotlib.text import Text

    for shown in figure.findobj(Text):
        # A name with two dollar signs is no mathematics.
        cast("Text", shown).set_parse_math(False)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # A name of 255 letters leaves no room for the drawing; it is drawn all the same.
        warnings.simplefilter("ignore")
        figure.savefig(buffer, format="png", metadata={"Software": None})
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return MetadataValue.md(f"![{words}](data:image/png;base64,{encoded})")


def cached_plot(
    context: AssetExecutionContext, name: str, draw: Callable[..., MarkdownMetadataValue], *shown: object
) -> MarkdownMetadataValue:
    """Return the picture of the last materialisation if it showed the same, else draw it: drawing takes its time.

    Args:
        context: of the step that shows the picture.
        name: the metadata key of the picture.
        draw: draws it.
        shown: what it shows, which is all that the picture depends on.
    """
    content = repr((draw.__name__, shown, version_of("ragspine_assets"), version_of("matplotlib")))
    # A definition that nothing refers to; whoever renders the Markdown shows nothing of it.
    mark = f"\n\n[//]: # (drawn from {sha256(content.encode()).hexdigest()})"
    last = context.instance.get_latest_materialization_event(context.asset_key)
    event = last.asset_materialization if last is not None else None
    former = event.metadata.get(name) if event is not None else None
    if isinstance(former, MarkdownMetadataValue) and (former.md_str or "").endswith(mark):
        return former
    return MetadataValue.md(f"{draw(*shown).md_str}{mark}")


def stacked_bars(
    counts: Mapping[str, Mapping[str, int]], colours: Mapping[str, str], words: str
) -> MarkdownMetadataValue:
    """Draw horizontal bars, one per row, each made of parts.

    Args:
        counts: row to part to count.
        colours: colour of each part, in drawing order.
        words: what the picture shows, for those who cannot see it; also its title.
    """
    figure, axes = _axes(6.4, 0.9 + 0.42 * max(len(counts), 1))
    rows = list(counts)
    left = [0] * len(rows)
    for part, colour in colours.items():
        widths = [counts[row].get(part, 0) for row in rows]
        if any(widths):
            axes.barh(rows, widths, left=left, color=colour, label=part.lower(), height=0.62)
            left = [a + b for a, b in zip(left, widths, strict=True)]
    for row, total in enumerate(left):
        axes.text(total, row, f" {total:,}", va="center", fontsize=9, color=_INK)
    axes.invert_yaxis()
    axes.set_title(words, fontsize=10, loc="left", color=_INK)
    axes.margins(x=0.12)
    if any(left):
        figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=len(colours))
    return _picture(figure, words)


def course(values: Sequence[float], words: str) -> MarkdownMetadataValue:
    """Draw how a share between 0 and 1 went from run to run, the last value in words."""
    figure, axes = _axes(6.4, 2.2)
    axes.plot(range(1, len(values) + 1), values, color="#4f43dd", marker="o", markersize=3, lw=1.2)
    axes.set_ylim(min(0.9, *values) - 0.05, 1.02)
    axes.set_xlim(0.5, len(values) + 0.5)
    axes.set_xticks([])
    axes.set_xlabel("runs, the latest at the right", fontsize=9, color=_INK)
    if values:
        axes.annotate(f"{values[-1]:.3f}", (len(values), values[-1]), (0, 6), textcoords="offset points", fontsize=9)
    axes.set_title(words, fontsize=10, loc="left", color=_INK)
    return _picture(figure, words)


def to_the_pixel(counts: Sequence[int]) -> list[int]:
    """Round counts to what a histogram of them can show: what nobody could see is no reason to draw it again."""
    step = max(max(counts, default=0) // _BAR_PIXELS, 1)
    return [round(count / step) * step for count in counts]


def histogram(edges: Sequence[int], counts: Sequence[int], words: str, unit: str) -> MarkdownMetadataValue:
    """Draw counts over ranges; ``edges`` has one element more than ``counts``."""
    figure, axes = _axes(6.4, 2.6)
    widths = [b - a for a, b in pairwise(edges)]
    axes.bar(list(edges)[:-1], counts, width=widths, align="edge", color="#4f43dd", edgecolor="white", linewidth=0.6)
    axes.set_xlabel(unit, fontsize=9, color=_INK)
    axes.set_title(words, fontsize=10, loc="left", color=_INK)
    return _picture(figure, words)


def network(
    nodes: Sequence[tuple[str, str, str]], edges: Sequence[tuple[str, str, str]], words: str
) -> MarkdownMetadataValue:
    """Draw a graph small enough to read.

    Args:
        nodes: ``(key, type, caption)``; a caption that is not ASCII is left out, since fonts may lack its letters.
        edges: ``(source key, target key, type)``.
        words: what the picture shows.
    """
    import networkx as nx

    figure, axes = _axes(8.4, 6.0)
    axes.set_axis_off()
    graph = nx.Graph()
    graph.add_nodes_from(key for key, _, _ in nodes)
    graph.add_edges_from((source, target) for source, target, _ in edges)
    if graph:
        place = nx.spring_layout(graph, seed=7, k=1.6 / max(len(graph), 1) ** 0.5, iterations=60)
        for source, target, kind in edges:
            (x0, y0), (x1, y1) = place[source], place[target]
            style = {"color": "#c9c6c2", "lw": 0.6} if kind == "mentions" else {"color": "#6f6a65", "lw": 1.1}
            axes.plot([x0, x1], [y0, y1], zorder=1, **style)
        for kind in dict.fromkeys(kind for _, kind, _ in nodes):
            points = [place[key] for key, node_kind, _ in nodes if node_kind == kind]
            size = 26 if kind == "doc" else 110
            colour = NODE_COLOURS.get(kind, "#d8a531")
            axes.scatter(*zip(*points, strict=True), s=size, c=colour, label=kind.replace("_", " "), zorder=2)
        for key, kind, caption in nodes:
            if caption.isascii():
                x, y = place[key]
                size = 5.5 if kind == "doc" else 8
                axes.annotate(caption, (x, y), (4, 4), textcoords="offset points", fontsize=size, color=_INK, zorder=3)
        axes.legend(fontsize=8, frameon=False, loc="lower left", ncols=6)
    axes.set_title(words, fontsize=10, loc="left", color=_INK)
    return _picture(figure, words)
