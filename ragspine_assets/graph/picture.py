"""A picture of what lies around a node: controlled edges solid, unverified ones dashed (SPEC 5.8)."""

from __future__ import annotations

import io
from functools import cache

from ragspine_assets.graph.graph_store import DuckDBGraphStore
from ragspine_assets.graph.values import DOC, Subgraph, is_unverified

MAX_NODES = 60
"""More nodes than this are not drawn; the title says how many there are."""

_COLOURS = {
    "entity": "#4f43dd",
    "external_entity": "#c0392b",
    "metric": "#2a9d8f",
    "doc": "#9aa0a6",
    "model_entity": "#d8a531",
}
_OTHER = "#8e6bbf"
_INK = "#231f1b"
_UNVERIFIED = "#b5541c"
_WIDE_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Source Han Sans", "IPAexGothic", "WenQuanYi Micro Hei")


def neighbourhood_picture(
    graph: DuckDBGraphStore, node_id: str, *, depth: int = 1, include_model_derived: bool = True
) -> bytes:
    """Return a PNG of the nodes at most `depth` edges from a node, and the edges among them.

    The same graph gives the same picture on the same machine. Each unverified edge is dashed, named, and says so; its
    evidence stands below the picture, as far as there is room.

    Args:
        graph: the graph.
        node_id: the node in the middle; nodes of several kinds may share the id.
        depth: how far to look, in edges.
        include_model_derived: also what a model asserted.
    """
    view = graph.subgraph([node_id], depth=depth, include_model_derived=include_model_derived)
    return draw_subgraph(view, f"Around {_shown(node_id)}", middle=node_id)


def draw_subgraph(view: Subgraph, title: str, *, middle: str = "") -> bytes:
    """Return a PNG of a part of the graph; solid lines are controlled edges, dashed ones nobody checked."""
    import networkx as nx
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    nodes = sorted(view.nodes, key=lambda node: (node.id != middle, node.type == DOC, node.type, node.id))[:MAX_NODES]
    keys = {(node.type, node.id) for node in nodes}
    edges = [edge for edge in view.edges if (edge.src_type, edge.src) in keys and (edge.dst_type, edge.dst) in keys]
    dashed = [edge for edge in edges if is_unverified(edge)]
    notes = [
        f"{_shown(edge.src)} {edge.type} {_shown(edge.dst)}: {edge.metadata.get('derived', '')},"
        f" {edge.metadata.get('verified', '')}; {_shown(edge.metadata.get('source_locator', ''))}"
        for edge in dashed
    ]
    left_out = len(notes) - 12
    if left_out > 0:
        notes = [*notes[:12], f"and {left_out} more"]
    figure = Figure(figsize=(8.4, 6.0 + 0.16 * len(notes)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_axis_off()
    more = f" ({len(nodes)} of {len(view.nodes)} nodes)" if len(nodes) < len(view.nodes) else ""
    font = _font()
    axes.set_title(title + more, fontsize=10, loc="left", color=_INK, fontname=font)
    if nodes:
        layout = nx.Graph()
        layout.add_nodes_from((node.type, node.id) for node in nodes)
        layout.add_edges_from(((edge.src_type, edge.src), (edge.dst_type, edge.dst)) for edge in edges)
        place = nx.spring_layout(layout, seed=7, k=1.7 / max(len(layout), 1) ** 0.5, iterations=80)
        for edge in edges:
            (x0, y0), (x1, y1) = place[edge.src_type, edge.src], place[edge.dst_type, edge.dst]
            unsure = is_unverified(edge)
            colour = _UNVERIFIED if unsure else "#8b867f"
            arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.1, "linestyle": "--" if unsure else "-"}
            arrow |= {"shrinkA": 6, "shrinkB": 6, "connectionstyle": "arc3,rad=0.12" if unsure else "arc3"}
            axes.annotate("", (x1, y1), (x0, y0), arrowprops=arrow, zorder=1)
            if unsure:
                axes.text((x0 + x1) / 2, (y0 + y1) / 2, edge.type, fontsize=7, color=colour, ha="center", fontname=font)
        for kind in dict.fromkeys(node.type for node in nodes):
            points = [place[node.type, node.id] for node in nodes if node.type == kind]
            size = 34 if kind == DOC else 120
            colour = _COLOURS.get(kind, _OTHER)
            axes.scatter(*zip(*points, strict=True), s=size, c=colour, label=kind.replace("_", " "), zorder=2)
        for node in nodes:
            x, y = place[node.type, node.id]
            axes.annotate(
                _shown(node.label or node.id),
                (x, y),
                (5, 5),
                textcoords="offset points",
                fontsize=7.5,
                color=_INK,
                fontname=font,
                zorder=3,
            )
        lines = [Line2D([], [], color="#8b867f", label="controlled")]
        if dashed:
            lines.append(Line2D([], [], color=_UNVERIFIED, linestyle="--", label="unverified"))
        handles, _ = axes.get_legend_handles_labels()
        axes.legend(handles=[*handles, *lines], fontsize=8, frameon=False, loc="lower left", ncols=6)
    if notes:
        figure.supxlabel("\n".join(notes), fontsize=7, color=_UNVERIFIED, x=0.01, ha="left", fontname=font)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _shown(name: str) -> str:
    """Return a name short enough to draw, without what a font may lack or matplotlib would read as mathematics."""
    kept = name if _font() != "DejaVu Sans" else "".join(char if ord(char) < 0x2E80 else "\u25a1" for char in name)
    kept = "".join(char if char.isprintable() else " " for char in kept).replace("$", r"\$")
    return kept if len(kept) <= 40 else kept[:39] + "\u2026"


@cache
def _font() -> str:
    """Return a font with Han and kana where the machine has one."""
    from matplotlib import font_manager

    there = {font.name for font in font_manager.fontManager.ttflist}
    return next((name for name in _WIDE_FONTS if name in there), "DejaVu Sans")
