r"""Which document a citation names, however somebody spelled it (SPEC 1.2, 1.8, 5.2).

People cite ``hr/pay.txt`` as ``HR\Pay.txt``, ``./hr//pay.txt#para3``, ``hr/pay.txt@v2#c0``, ``file:///mnt/share/hr/pay.txt``
or ``pay``. A citation that is a document's id, with or without a version and a place, names that document and no other.
Any other spelling is folded and names every document that it may mean: who protects a document asks whether it is among
them, so that doubt protects.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from urllib.parse import unquote

from ragspine_assets.documents.source import SUPPORTED_SUFFIXES
from ragspine_assets.policy.folding import fold_text

_ENDINGS = "|".join(sorted((re.escape(suffix) for suffix in SUPPORTED_SUFFIXES), key=len, reverse=True))
_ENDING = re.compile(rf"(?:{_ENDINGS})\Z")
_AFTER_ENDING = re.compile(rf"(?:{_ENDINGS})(?![\w.])")
_SCHEME = re.compile(r"\A\s*(?:[a-z][a-z0-9+.-]+:/{2,}|file:|[a-z]:(?=[\\/]))", re.IGNORECASE)
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_VERSION = re.compile(r"@v\d+\Z", re.IGNORECASE)
_SLASHES = str.maketrans(dict.fromkeys("\\\u00a5\u20a9\u2044\u2215\u2216\u29f5\u29f8\u29f9\uff0f\uff3c\ufe68", "/"))
_BREAKS = re.compile(r"[\s\"'<>()\[\]{},;:=|]+")
_PLACES = "#?!@\u00a7"
_LONGEST = 4096
# Code points looked into for paths between other words: what somebody writes by hand needs some thousands.
_MOST_READ = 400_000


def fold_path(path: str) -> str:
    """Return a path folded for comparison: '' if nothing of it is left.

    Beside what `fold_text` folds: escapes of URLs and a scheme go, every kind of slash is ``/``, empty parts and ``.`` go,
    ``..`` takes a part back, and parts lose the spaces around them.
    """
    if _ESCAPE.search(path):
        path = unquote(path)
    path = _SCHEME.sub("/", unicodedata.normalize("NFKC", path.translate(_SLASHES)))
    parts: list[str] = []
    for part in fold_text(path).translate(_SLASHES).split("/"):
        name = part.strip()
        if name == "..":
            del parts[-1:]
        elif name not in {"", "."}:
            parts.append(name)
    return "/".join(parts)


def cited_id(citation: str, doc_ids: Collection[str]) -> str | None:
    """Return the document whose very id a citation spells, with or without version and place; None if it spells none.

    Args:
        citation: an id, ``{id}@v{n}``, ``{id}#{place}`` or ``{id}@v{n}#{place}``.
        doc_ids: the ids there are; a set or a mapping.
    """
    found = citation if citation.isascii() else unicodedata.normalize("NFC", citation)
    # From the right: a name may hold a mark too, and the longest id that fits is meant.
    while True:
        if found in doc_ids:
            return found
        plain = _VERSION.sub("", found)
        if plain != found and plain in doc_ids:
            return plain
        # No file has a longer path, and each mark costs as much as stands before it.
        mark = found.rfind("#", 0, _LONGEST)
        if mark < 0:
            return None
        found = found[:mark]


class DocumentNames:
    """Finds the documents that a citation may mean, among those it was made for.

    Args:
        doc_ids: ids of these documents.
    """

    def __init__(self, doc_ids: Iterable[str]) -> None:
        self._ids = frozenset(doc_ids)

    @cached_property
    def _paths(self) -> dict[str, set[str]]:
        paths: defaultdict[str, set[str]] = defaultdict(set)
        for doc_id in self._ids:
            paths[fold_path(doc_id)].add(doc_id)
        return dict(paths)

    @cached_property
    def _tails(self) -> dict[str, set[str]]:
        """Ends of paths, from some folder on, with and without the ending of the name."""
        tails: defaultdict[str, set[str]] = defaultdict(set)
        for path, doc_ids in self._paths.items():
            for whole in {path, _ENDING.sub("", path)}:
                parts = whole.split("/")
                for first in range(len(parts)):
                    tails["/".join(parts[first:])] |= doc_ids
        return dict(tails)

    @cached_property
    def _folders(self) -> dict[str, set[str]]:
        folders: defaultdict[str, set[str]] = defaultdict(set)
        for path, doc_ids in self._paths.items():
            parts = path.split("/")
            for last in range(1, len(parts)):
                folders["/".join(parts[:last])] |= doc_ids
        return dict(folders)

    def same_path(self, citation: str) -> frozenset[str]:
        """Return the documents whose path a citation spells, from the root on, up to folding, version and place."""
        for spelling in _spellings(citation):
            if found := self._paths.get(fold_path(spelling)):
                return frozenset(found)
        return frozenset()

    def named(self, citation: str, *, folders: bool = False) -> frozenset[str]:
        """Return the documents that a citation may mean; empty if none.

        Tried in this order, up to folding, version and place: the path; a folder, where asked for; a part of the path at
        its end, with or without the ending; a longer path that ends in the document's; a path inside other words.

        Args:
            citation: what somebody wrote.
            folders: whether the path of a folder means the documents in it.
        """
        if not self._ids or not citation.strip():
            return frozenset()
        if exact := cited_id(citation, self._ids):
            return frozenset({exact})
        if found := self.same_path(citation):
            return found
        spellings = [path for spelling in _spellings(citation) if (path := fold_path(spelling))]
        if folders:
            for path in spellings:
                if found := self._folders.get(path):
                    return frozenset(found)
        for path in spellings:
            if found := self._by_end(path):
                return found
        # What stands around a path: "see hr/pay.txt", "doc:hr/pay.txt".
        meant: set[str] = set()
        left = _MOST_READ
        for spelling in _spellings(citation):
            for path, read in _inside(spelling):
                meant |= self._by_end(path)
                left -= read
                if left < 0:
                    return frozenset(meant)
        return frozenset(meant)

    @cached_property
    def _depth(self) -> int:
        """Parts of the longest path: no longer end of a path is one of these."""
        return max((path.count("/") + 1 for paths in (self._paths, self._tails) for path in paths), default=0)

    def _by_end(self, path: str) -> frozenset[str]:
        if found := self._tails.get(path):
            return frozenset(found)
        parts = path.split("/")
        for first in range(max(1, len(parts) - self._depth), len(parts)):
            end = "/".join(parts[first:])
            found = self._paths.get(end) or (self._tails.get(end) if first + 1 < len(parts) else None)
            if found:
                return frozenset(found)
        return frozenset()


def _spellings(citation: str) -> Iterator[str]:
    """Yield a citation, and what is left of it without a version or a place at its end, the longest first."""
    citation = citation[:_LONGEST]
    yield citation
    folded = unicodedata.normalize("NFKC", unquote(citation) if "%" in citation else citation)
    if folded != citation:
        yield folded
    cuts = {place for place, char in enumerate(folded) if char in _PLACES}
    cuts |= {
        match.end() for match in _AFTER_ENDING.finditer(folded.casefold()) if len(folded.casefold()) == len(folded)
    }
    for place in sorted(cuts - {0, len(folded)}, reverse=True)[:64]:
        yield folded[:place]


def _inside(spelling: str) -> Iterator[tuple[str, int]]:
    """Yield what stands behind each space, bracket, quotation mark or colon of a spelling, folded; and its length as it was."""
    breaks = [match.end() for match in _BREAKS.finditer(spelling)]
    pieces = [spelling[place:].strip("\"'<>()[]{} .") for place in breaks[:64]]
    for piece in (*pieces, spelling.strip("\"'<>()[]{} .,;:")):
        if path := fold_path(piece):
            yield path, len(piece)


def closed_citations(
    citations: Iterable[str], known: Collection[str], closed: Collection[str], guarded: Collection[str] = ()
) -> set[str]:
    """Return those of some citations that name a closed document, or may (SPEC 5.2, 5.4).

    Args:
        citations: what somebody wrote.
        known: ids of all documents, closed ones too: a citation that is the very id of an open one names no other.
        closed: ids of the closed ones.
        guarded: ids that may be cited, but only by the very id: under another spelling nobody would know their label.
    """
    closed = frozenset(closed)
    names = DocumentNames(closed.union(guarded))
    return {
        citation
        for citation in citations
        if (found in closed if (found := cited_id(citation, known)) is not None else names.named(citation))
    }
