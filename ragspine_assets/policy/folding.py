"""The one folding of text for matching names and keywords (SPEC 1.8, 5.7).

Folded text is for comparison only, never for showing. What is removed: case, compatibility forms (full width,
ligatures), accents and other general combining marks, format and zero-width characters, control characters. What is
mapped: letters that look alike, by Unicode's confusables (the package confusable-homoglyphs), dashes and quotation
marks to their ASCII forms, every run of white space to one space.

What stays apart on purpose: digits and letters (``0`` and ``o``), kana with and without a voicing mark, and the vowel
signs of Indic and South-East Asian scripts, which are combining characters without which the words are others. Letters
that are told apart by an accent alone (``и`` and ``й``, ``e`` and ``è``) become equal: a pattern and the text it is
looked for in are folded by the same function, so this costs precision between rare pairs and no match.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from importlib import resources
from itertools import pairwise

import regex

# Scripts whose combining characters are vowels and not decoration.
_VOWEL_SIGN_SCRIPTS = "\u0900-\u1cff\ua800-\uabff\U00011000-\U00011fff"
_VOWEL_SIGN_SCRIPT = re.compile(f"[{_VOWEL_SIGN_SCRIPTS}]")
_KANA = "\u3041-\u3096\u30a1-\u30fa\u309d\u309e\u30fd\u30fe"
_VOICING = "\u3099\u309a"

# Those that are not assigned yet too: whatever is assigned there later will show nothing.
_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
_SPELT = {
    "\u2800": " ",  # a Braille cell without dots is a blank
    "\u309b": "\u3099",  # the spacing voicing marks: NFKC would put a space before them
    "\u309c": "\u309a",
    "\u2212": "-",
    "\u2043": "-",
    "\u2018": "'",
    "\u2019": "'",
    "\u201a": "'",
    "\u201b": "'",
    "\u02bc": "'",
    "\u2032": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u201e": '"',
    "\u201f": '"',
    "\u00ab": '"',
    "\u00bb": '"',
}


def _is_dropped(char: str) -> bool:
    """Tell whether a character leaves nothing behind: format, control and general combining characters."""
    category = unicodedata.category(char)
    if category in {"Cf", "Cc"} or _IGNORABLE.match(char):
        return not char.isspace()
    return category[0] == "M" and char not in _VOICING and not _VOWEL_SIGN_SCRIPT.match(char)


def _bare(text: str) -> str:
    """Return a text decomposed, without general combining characters."""
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not _is_dropped(char))


def _alike_group(char: str) -> str:
    """Name the group of scripts inside which look-alikes of an ordinary text are mapped; '' for none.

    Only letters, and only where a mixture is a disguise: the scripts with upper and lower case (and Lisu, which is
    made of Latin capitals), and Han with kana. A digit or a right-to-left letter that looks like a Latin letter is no
    look-alike in an ordinary text; the gate's skeletons know them all.
    """
    name = unicodedata.name(char, "")
    if unicodedata.category(char) in {"Lu", "Ll", "Lt"} or name.startswith("LISU LETTER"):
        return "cased"
    if name.startswith(("CJK UNIFIED IDEOGRAPH", "KATAKANA", "HIRAGANA")):
        return "east-asian"
    return ""


@cache
def _confusables() -> dict[str, tuple[str, ...]]:
    """Return each character's look-alikes that are one character, accents left aside; read at first use."""
    raw = json.loads(resources.files("confusable_homoglyphs").joinpath("confusables.json").read_bytes())
    found: dict[str, tuple[str, ...]] = {}
    for key, entries in raw.items():
        source = key.replace("\u200e", "")
        if len(source) == 1:
            # The right-to-left ones are wrapped in marks. A slashed o is listed as o and a combining slash.
            targets = (_bare(entry["c"].replace("\u200e", "")) for entry in entries)
            found[source] = tuple(target for target in targets if len(target) == 1 and target != source)
    return found


def _folded_case(char: str) -> str:
    return _bare(_bare(char).casefold())


def ascii_look(char: str) -> str:
    """Return the ASCII letter that a character looks like, in the case it looks like; '' if none."""
    if char.isascii():
        return ""
    return next((other for other in _confusables().get(char, ()) if other.isascii() and other.isalpha()), "")


@cache
def _alike() -> dict[str, str]:
    """Return, for each case-folded letter, the letter that stands for all that look like it.

    A letter is mapped as a whole, in both cases, or else an upper-case word and its lower-case form would fold to
    different texts: Cyrillic EN looks like H as a capital only, and both of its forms become ``h``. Where both forms
    look like something, the small one decides.
    """
    small: dict[str, str] = {}
    capital: dict[str, str] = {}
    for char in _confusables():
        folded = _folded_case(char)
        if char.isascii() or len(folded) != 1 or folded.isascii() or _alike_group(char) != "cased":
            continue
        look = ascii_look(char).casefold()
        if look:
            (small if folded == char else capital).setdefault(folded, look)
    alike = {**capital, **small}
    # Look-alikes of a letter that has been mapped, and pairs without a Latin member: kana before Han, so that a kana
    # keeps its voicing mark; else the one that the table lists most look-alikes for; else the first code point.
    direct = dict(alike)

    def weight(char: str) -> tuple[bool, int, int]:
        han = unicodedata.name(char, "").startswith("CJK")
        return han, -len(_confusables().get(char, ())), ord(char)

    for char, others in _confusables().items():
        folded, group = _folded_case(char), _alike_group(char)
        if char.isascii() or len(folded) != 1 or folded in direct or folded.isascii() or not group:
            continue
        near = {_folded_case(other) for other in others if _alike_group(other) == group}
        near = {other for other in near if len(other) == 1 and _alike_group(other) == group}
        latin = sorted(direct[other] for other in near if other in direct)
        if latin:
            alike[folded] = latin[0]
        elif near:
            best = min(near, key=weight)
            if weight(best) < weight(folded) and not best.isascii():
                alike[folded] = best
    return {char: _end_of(alike, char) for char in alike}


def _end_of(mapping: dict[str, str], char: str) -> str:
    seen = {char}
    while (following := mapping.get(char, char)) not in seen:
        char = following
        seen.add(char)
    return min(seen) if following != char else char


def _fold_char(char: str) -> str:
    """Return what one character folds to; a fixed point of itself."""
    if char.isspace():
        return " "
    if char.isascii():
        return "" if _is_dropped(char) else char.lower()
    alike = _alike()
    text = char
    for _ in range(4):  # a casefold may decompose into something that has a case of its own
        folded = ""
        for piece in text:
            spelt = _SPELT.get(piece) or ("-" if unicodedata.category(piece) == "Pd" else None)
            folded += spelt if spelt is not None else _folded_case(piece)
        folded = "".join(" " if piece.isspace() else alike.get(piece, piece) for piece in folded)
        if folded == text:
            break
        text = folded
    return unicodedata.normalize("NFC", text)


class _Table(dict[int, str]):
    """A table for `str.translate` that learns each character when it first meets it."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold_char(chr(code))
        return folded


_TABLE = _Table()
_ASCII_DROPPED = bytes(code for code in range(128) if _is_dropped(chr(code)))
_ASCII_TABLE = bytes(32 if chr(code).isspace() else ord(chr(code).lower()) for code in range(128)) + bytes(
    range(128, 256)
)
_SPACES = re.compile("  +")
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
# Any character that a stray mark could be: a range check, since nearly every text has none.
_MARK_SUSPECT = re.compile(f"[{_VOWEL_SIGN_SCRIPTS}{_VOICING}]")
_BASIC_PLANE_MARKS = _VOICING + "".join(
    chr(code) for code in (*range(0x900, 0x1D00), *range(0xA800, 0xAC00)) if unicodedata.category(chr(code))[0] == "M"
)
_MARK_RUN = re.compile(
    f"(?:[{_BASIC_PLANE_MARKS}]|["
    + "".join(chr(code) for code in range(0x11000, 0x12000) if unicodedata.category(chr(code))[0] == "M")
    + "])+"
)
# A vowel sign behind a letter of another script. (The supplementary planes are few enough to be looked at one by one.)
_STRAY_SIGN = re.compile(f"(?<![{_VOWEL_SIGN_SCRIPTS}])[{_BASIC_PLANE_MARKS}]|[\U00011000-\U00011fff]")
_IS_KANA = re.compile(f"[{_KANA}]")


def _stray_marks(folded: str) -> set[int]:
    """Return the offsets of vowel signs on letters of other scripts and of voicing marks where they make no sound."""
    stray: set[int] = set()
    if not _MARK_SUSPECT.search(folded):
        return stray
    if not _STRAY_SIGN.search(folded) and not any(mark in folded for mark in _VOICING):
        return stray
    for run in _MARK_RUN.finditer(folded):
        start, end = run.span()
        base = folded[start - 1] if start else ""
        if _VOWEL_SIGN_SCRIPT.match(base):
            stray.update(index for index in range(start, end) if folded[index] in _VOICING)
        elif _IS_KANA.match(base):
            # One mark, unless the kana has its own already.
            keeps = folded[start] in _VOICING and unicodedata.is_normalized("NFD", base)
            stray.update(range(start + keeps, end))
        else:
            stray.update(range(start, end))
    return stray


def _without(folded: str, stray: set[int]) -> str:
    return "".join([char for index, char in enumerate(folded) if index not in stray]) if stray else folded


def _fold_ascii(utf8: bytes) -> bytes:
    """Fold the ASCII characters of a text; in UTF-8 no other character has a byte in common with them."""
    return utf8.translate(_ASCII_TABLE, _ASCII_DROPPED)


def _one_space(text: str) -> str:
    """Return a text, whose white space is spaces only, with single ones between words and none at the ends."""
    return (_SPACES.sub(" ", text) if "  " in text else text).strip(" ")


def fold_text(text: str) -> str:
    """Return a text folded for comparison (SPEC 1.8, 5.7); see this module for what is folded.

    Idempotent, and the same whatever form (composed or not) the text comes in. Linear in the text, which may have
    tens of megabytes: about 150 MB/s for English, 50 MB/s for the rest.
    """
    if text.isascii():
        return _one_space(_fold_ascii(text.encode("ascii")).decode("ascii"))
    utf8 = text.encode("utf-8", "surrogatepass")
    if len(utf8) < 1.2 * len(text):
        # A European text: what is not ASCII are a few accents and quotation marks.
        half = _NOT_ASCII.sub(lambda run: run.group().translate(_TABLE), text)
        folded = _fold_ascii(half.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    else:
        folded = text.translate(_TABLE)
    folded = _without(folded, _stray_marks(folded))
    return _one_space(unicodedata.normalize("NFC", folded))


def fold_with_offsets(text: str) -> tuple[str, list[int]]:
    """Return `fold_text` of a text, and for each folded code point the offset of the source code point it came from.

    The list has one element more than the folded text, the offset where what left nothing behind the last code point
    ends. ``folded[i:j]`` (i < j) comes from ``text[offsets[i] : max(offsets[j], offsets[j - 1] + 1)]``, removed
    characters inside and right behind it included.
    """
    return _fold_with_offsets(text, _TABLE)


def may_look_like(char: str, letter: str) -> bool:
    """Tell whether a character, in either case, looks like a folded letter."""
    if _TABLE[ord(char)] == letter:
        return True
    looks = {ascii_look(piece).lower() for form in (char, char.lower(), char.upper()) for piece in _bare(form)}
    return letter in looks or (letter in "il1" and bool(looks & {"i", "l"})) or (letter in "o0" and "o" in looks)


def _fold_with_offsets(text: str, table: _Table) -> tuple[str, list[int]]:
    pieces = [table[ord(char)] for char in text]
    folded = "".join(pieces)
    if len(folded) == len(text) and "" not in pieces:
        offsets = list(range(len(text)))
    else:
        offsets = [index for index, piece in enumerate(pieces) for _ in piece]
    if not folded.isascii():
        if stray := _stray_marks(folded):
            offsets = [offset for index, offset in enumerate(offsets) if index not in stray]
            folded = _without(folded, stray)
        folded, offsets = _composed(folded, offsets)
    offsets.append(len(text))
    if "  " in folded or folded[:1] == " " or folded[-1:] == " ":
        keep = [index for index, char in enumerate(folded) if char != " " or folded[index - 1 : index] not in {"", " "}]
        if keep and folded[keep[-1]] == " ":
            keep.pop()
        end = keep[-1] + 1 if keep else 0
        offsets = [*(offsets[index] for index in keep), offsets[end]]
        folded = "".join([folded[index] for index in keep])
    return folded, offsets


def _composed(folded: str, offsets: list[int]) -> tuple[str, list[int]]:
    """Compose as `fold_text` does, cluster by cluster: each composed code point starts where its first part did."""
    if unicodedata.is_normalized("NFC", folded):
        return folded, offsets
    starts = [0, *(index for index in range(1, len(folded)) if not _joins(folded[index])), len(folded)]
    texts: list[str] = []
    sources: list[int] = []
    for start, end in pairwise(starts):
        composed = unicodedata.normalize("NFC", folded[start:end])
        texts.append(composed)
        # A cluster may stay several code points long (Hangul with a second final consonant).
        sources.extend(offsets[min(start + index, end - 1)] for index in range(len(composed)))
    return "".join(texts), sources


def _joins(char: str) -> bool:
    """Tell whether a character may compose with the one before it."""
    return unicodedata.category(char)[0] == "M" or "\u1160" <= char <= "\u11ff"
