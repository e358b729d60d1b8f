"""Chunkers by name (SPEC 2.8)."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points

from ragspine_assets.chunking.default import DefaultChunker
from ragspine_assets.chunking.layout import BookChunker, LawsChunker, LayoutAwareChunker, QaChunker
from ragspine_assets.chunking.parent_child import ParentChildChunker
from ragspine_assets.chunking.protocol import Chunker
from ragspine_assets.chunking.sentence_window import SentenceWindowChunker
from ragspine_assets.chunking.spans import CutChunker
from ragspine_assets.chunking.structure import StructureChunker
from ragspine_assets.errors import SettingError, is_cancel

ENTRY_POINT_GROUP = "ragspine.chunkers"
"""Where third parties register chunkers: trusted code, since it sees RESTRICTED text."""

ENVIRONMENT = "RAGSPINE_CHUNKER"
"""Environment variable that is read when no spec is given."""

_NONE = "none"
_LONGEST = 200
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
            ``ragspine.chunkers``. Case, spaces and the kind of separator do not matter. Parameters may stand behind the
            name: ``sentence_window(window_size=2)``. ``None`` reads ``RAGSPINE_CHUNKER``.
        **kwargs: what the chunker is made with, such as ``window_size``; these win over the parameters of the spec.

    Returns:
        The chunker; ``None``, which means `chunk_document`, when none is asked for.

    Raises:
        ValueError: if nothing has that name (the message lists what there is), if it is not made with such arguments,
            or if what a third party registered is no chunker.
    """
    asked = os.environ.get(ENVIRONMENT, "") if spec is None else spec
    name, stated = _read(asked)
    if name in ("", _NONE):
        if stated:
            raise SettingError(f"the chunker {_NONE!r} has no parameters; leave out {', '.join(sorted(stated))}")
        return None
    kwargs = {**stated, **kwargs}
    built_in = _BUILT_IN.get(name)
    if built_in is not None:
        _require_parameters(name, built_in, kwargs)
        return _made(name, built_in, kwargs)
    registered = {_folded(point.name): point for point in reversed(_registered())}
    if name not in registered:
        there_is = ", ".join((_NONE, *_BUILT_IN))
        others = ", ".join(sorted(point.name for point in registered.values())) or "none"
        near = get_close_matches(name, (_NONE, *_BUILT_IN, *registered), 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        message = f"unknown chunker {asked!r}{meant} Built in: {there_is}; registered in {ENTRY_POINT_GROUP}: {others}"
        raise SettingError(message)
    return _third_party(name, registered[name], kwargs)


def chunker_names() -> tuple[str, ...]:
    """Return every name that `make_chunker` knows, those that are registered by third parties last."""
    spelled = [name for known in _BUILT_IN for name in (known, known.replace("_", "-"))]
    return tuple(dict.fromkeys((_NONE, *spelled, *(point.name for point in _registered()))))


def _read(spec: str) -> tuple[str, dict[str, object]]:
    """Return the name and the parameters of a spec such as ``sentence_window(window_size=2)``.

    Raises:
        SettingError: what stands behind the name is no list of parameters.
    """
    head, mark, rest = spec.strip().partition("(")
    if not mark:
        return _folded(spec), {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
            raise ValueError
        # A name twice is a syntax error already; anything but a literal is a ValueError here.
        return _folded(head), {str(part.arg): ast.literal_eval(part.value) for part in call.keywords if part.arg}
    except (SyntaxError, ValueError):
        raise SettingError(
            f"the chunker {spec!r} cannot be read: parameters stand as NAME(PARAMETER=VALUE, ...), values as numbers, "
            "True, False or 'text', such as sentence_window(window_size=2)"
        ) from None


def _require_parameters(name: str, make: type[CutChunker], given: Mapping[str, object]) -> None:
    """Refuse parameters that a built-in chunker does not have, or of another type; the message lists what it has."""
    known = {item.name: item.default for item in fields(make) if item.init} if is_dataclass(make) else {}
    for parameter, value in given.items():
        if parameter not in known:
            near = get_close_matches(parameter, known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else "."
            there_is = ", ".join(f"{one}={default!r}" for one, default in known.items()) or "none"
            raise SettingError(f"the chunker {name!r} has no parameter {parameter!r}{meant} It has: {there_is}")
        if type(value) is not type(known[parameter]):
            raise SettingError(
                f"the parameter {parameter!r} of the chunker {name!r} is of the kind of {known[parameter]!r}, not {value!r}"
            )


def _folded(spec: str) -> str:
    return _SEPARATORS.sub("_", spec.strip()).casefold()


def _registered() -> list[EntryPoint]:
    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value))


def _third_party(name: str, point: EntryPoint, kwargs: Mapping[str, object]) -> Chunker:
    """Load and make what somebody registered; whatever that raises is one sentence about their package.

    No document is open here, so the words of a foreign exception are nobody's text.
    """
    owner = point.dist.name if point.dist else "an unknown package"
    try:
        made = _made(name, point.load(), kwargs)
    except SettingError:
        raise
    except BaseException as error:
        if is_cancel(error):
            raise
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:_LONGEST].rstrip(": ")
    else:
        return made
    raise SettingError(
        f"the chunker {name!r}, which {owner} registers as {point.value}, cannot be loaded ({why}). Repair or install "
        f"{owner}, or choose another chunker"
    )


def _made(name: str, make: Callable[..., object], kwargs: Mapping[str, object]) -> Chunker:
    try:
        made = make(**kwargs)
    except TypeError as error:
        if not kwargs:
            message = (
                f"the chunker {name!r} of {ENTRY_POINT_GROUP} is made by nothing that can be called alone: {error}"
            )
            raise SettingError(message) from None
        message = f"the chunker {name!r} is not made with {', '.join(sorted(kwargs))}: {error}"
        raise SettingError(message) from error
    if not isinstance(made, Chunker):
        message = f"the chunker {name!r} of {ENTRY_POINT_GROUP} is a {type(made).__name__} without a method chunk"
        raise SettingError(message)
    return made
