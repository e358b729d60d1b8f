"""Chunkers by name (SPEC 2.8)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from ragspine_assets.chunking.default import DefaultChunker
from ragspine_assets.chunking.layout import BookChunker, LawsChunker, LayoutAwareChunker, QaChunker
from ragspine_assets.chunking.parent_child import ParentChildChunker
from ragspine_assets.chunking.protocol import Chunker
from ragspine_assets.chunking.sentence_window import SentenceWindowChunker
from ragspine_assets.chunking.spans import CutChunker
from ragspine_assets.chunking.structure import StructureChunker
from ragspine_assets.errors import SettingError

ENTRY_POINT_GROUP = "ragspine.chunkers"
"""Where third parties register chunkers: trusted code, since it sees RESTRICTED text."""

ENVIRONMENT = "RAGSPINE_CHUNKER"
"""Environment variable that is read when no spec is given."""

_NONE = "none"
_SEPARATORS = re.compile(r"[\s_-]+")

_BUILT_IN: Mapping[str, type[CutChunker]] = {
    "default": DefaultChunker,
    "recursive": DefaultChunker,
    "structural": DefaultChunker,
    "layout": LayoutAwareChunker,
    "laws": LawsChunker,
    "law": LawsChunker,
    "legal": LawsChunker,
    "qa": QaChunker,
    "faq": QaChunker,
    "book": BookChunker,
    "chapter": BookChunker,
    "parent_child": ParentChildChunker,
    "small_to_big": ParentChildChunker,
    "sentence_window": SentenceWindowChunker,
    "structure": StructureChunker,
}


def make_chunker(spec: str | None = None, **kwargs: object) -> Chunker | None:
    """Return the chunker that a spec names (SPEC 2.8).

    Args:
        spec: ``none`` or blank for the built-in rule; ``default`` (``recursive``, ``structural``), ``layout``, ``laws``
            (``law``, ``legal``), ``qa`` (``faq``), ``book`` (``chapter``), ``parent_child`` (``small_to_big``),
            ``sentence_window``, ``structure``, or a name that a third party registered as an entry point in the group
            ``ragspine.chunkers``. Case, spaces and the kind of separator do not matter. ``None`` reads
            ``RAGSPINE_CHUNKER``.
        **kwargs: what the chunker is made with, such as ``window_size``.

    Returns:
        The chunker; ``None``, which means `chunk_document`, when none is asked for.

    Raises:
        ValueError: if nothing has that name (the message lists what there is), if it is not made with such arguments,
            or if what a third party registered is no chunker.
    """
    asked = os.environ.get(ENVIRONMENT, "") if spec is None else spec
    name = _folded(asked)
    if name in ("", _NONE):
        return None
    built_in = _BUILT_IN.get(name)
    if built_in is not None:
        return _made(name, built_in, kwargs)
    registered = {_folded(point.name): point for point in reversed(_registered())}
    if name not in registered:
        there_is = ", ".join((_NONE, *_BUILT_IN))
        others = ", ".join(sorted(point.name for point in registered.values())) or "none"
        message = f"unknown chunker {asked!r}; built in: {there_is}; registered in {ENTRY_POINT_GROUP}: {others}"
        raise SettingError(message)
    return _made(name, registered[name].load(), kwargs)


def chunker_names() -> tuple[str, ...]:
    """Return every name that `make_chunker` knows, those that are registered by third parties last."""
    spelled = [name for known in _BUILT_IN for name in (known, known.replace("_", "-"))]
    return tuple(dict.fromkeys((_NONE, *spelled, *(point.name for point in _registered()))))


def _folded(spec: str) -> str:
    return _SEPARATORS.sub("_", spec.strip()).casefold()


def _registered() -> list[EntryPoint]:
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value))


def _made(name: str, make: Callable[..., object], kwargs: Mapping[str, object]) -> Chunker:
    try:
        made = make(**kwargs)
    except TypeError as error:
        if not kwargs:
            raise
        message = f"the chunker {name!r} is not made with {', '.join(sorted(kwargs))}: {error}"
        raise SettingError(message) from error
    if not isinstance(made, Chunker):
        message = f"the chunker {name!r} of {ENTRY_POINT_GROUP} is a {type(made).__name__} without a method chunk"
        raise SettingError(message)
    return made
