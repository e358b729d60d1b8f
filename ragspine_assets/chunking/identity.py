"""What a document's chunks depend on besides its text: who cut them, and how (SPEC 1.9)."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points, packages_distributions, version

from ragspine_assets.chunking.default import DefaultChunker
from ragspine_assets.chunking.factory import ENTRY_POINT_GROUP
from ragspine_assets.chunking.protocol import Chunker
from ragspine_assets.chunking.spans import CutChunker

_VERSION = "1"
# Raised whenever a built-in chunker cuts any text differently from the release before.

_OWN_PACKAGE = CutChunker.__module__.rpartition(".")[0]
_PLAIN = (str, int, float, bool, type(None))


def chunker_identity(chunker: Chunker | None, max_chars: int, overlap_chars: int) -> str:
    """Return a stable string that differs whenever a chunker might cut differently (SPEC 1.9).

    It names the class and its plain parameters, the sizes, and a version: of our rules, or of the distribution that
    brings a third party's chunker. ``None`` is the built-in rule and the same as `DefaultChunker`.
    """
    chunker = DefaultChunker() if chunker is None else chunker
    kind = type(chunker)
    if kind.__module__.rpartition(".")[0] == _OWN_PACKAGE:
        name = kind.__name__
        origin = f"ragspine_assets/{_VERSION}"
    else:
        name = f"{kind.__module__}.{kind.__qualname__}"
        origin = _distribution(kind.__module__)
    parameters = ", ".join(f"{key}={value!r}" for key, value in sorted(_parameters(chunker).items()))
    return f"{name}({parameters}) of {origin}, max_chars={max_chars}, overlap_chars={overlap_chars}"


def _parameters(chunker: object) -> dict[str, object]:
    names = [*getattr(chunker, "__dict__", {})]
    for kind in type(chunker).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names.extend((slots,) if isinstance(slots, str) else slots)
    values = {name: getattr(chunker, name, None) for name in names if not name.startswith("__")}
    return {name: value for name, value in values.items() if isinstance(value, _PLAIN)}


def _distribution(module: str) -> str:
    package = module.partition(".")[0]
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.module.partition(".")[0] == package and point.dist is not None:
            return f"{point.dist.name}/{point.dist.version}"
    if package in sys.modules and package != "__main__":
        for distribution in packages_distributions().get(package, ()):
            return f"{distribution}/{version(distribution)}"
    return "unknown"
