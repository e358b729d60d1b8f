"""What a name is compared by: its letters alone, each reduced to what it is or to what it looks like (SPEC 5.7).

Unicode calls this a skeleton (UTS 39). There are two. The *letters* of a text are what it says: `fold_text`, and beyond
it one form of Han (traditional, simplified and Japanese ones, by OpenCC's tables), one kind of kana without voicing
marks, Hangul in its parts, and no mark that stands beside a word (``™``, ``¹``, ``①``). The *shapes* are what it looks
like: each letter of any script that can pass for a Latin one is that one, digits and signs are the letters they are
written for, and Latin letters that one foreign letter can pass for are one. Ordinary words have the same shapes, so
a match of shapes needs a second look, `passes_for`, at each of its characters.
"""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import regex

from ragspine_assets.policy.folding import ascii_look, fold_text, may_look_like

if TYPE_CHECKING:
    from opencc import OpenCC

INVISIBLE, SPACE, PROSE, WORD, UPPER, LOWER, SIGN = 1, 2, 4, 8, 16, 32, 64
"""Kinds of a character, as bits: nothing to see; white space; punctuation of a sentence; belongs to a word of a script
that separates its words, in upper or in lower case; anything else to see."""

VOICING = "\u3099\u309a\u309b\u309c\uff9e\uff9f"
VOWEL_SIGNS = re.compile("[\u0900-\u1cff\ua800-\uabff\U00011000-\U00011fff]")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3031-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]"
)
"""Scripts that do not separate words: a name there is found inside a longer run, and does not end a Latin word."""

_HAN = regex.compile(r"\p{Han}")
_APOSTROPHES = re.compile("[\u02b9-\u02df\u02e5-\u02ff]")
_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}|\p{Cs}|\p{Cc}|\p{Cf}|\p{M}")
_NO_LETTER = regex.compile(rf"{_IGNORABLE.pattern}|{_APOSTROPHES.pattern}")
_PROSE = frozenset(',;:!?()"[]{}|\u2026\u201c\u201d\u201e\u00ab\u00bb\u00a1\u00bf')
_PROSE_OF_EAST_ASIA = frozenset("、。，；：！？「」『』（）《》〈〉【】｡､｢｣")
_BESIDE = ("<super>", "<sub>")

WRITTEN_FOR = {
    "0": "o", "1": "il", "2": "z", "3": "e", "4": "a", "5": "s", "6": "gb", "7": "t", "8": "b", "9": "gq",
    "@": "a", "$": "s", "!": "il", "|": "il", "+": "t",
}  # fmt: skip
"""Digits and signs of ASCII, each with the letters it is written for."""

_ONE_SHAPE = {
    char: group[0] for group in ("li1|!", "o0", "nhvuy", "e3", "a4@", "s5$", "t7+", "gbq689", "z2") for char in group
}

# Letters that are drawn as Latin ones and that Unicode's table of confusables leaves out or lists as another's image.
_DRAWN = (
    "бb вb гr дd зez иnu йnu лn мm нhn пn тt фo цu чy шw щw ъb ыb ьb эe яr ђh ћh ҕb әe өo ўy ѡw ѣb љn њn џu ѧa жx кk юo "
    "БB ВB ГR ДD ЗEZ ИN ЙN ЛN ПN ФO ЦU ЧY ШW ЩW ЪB ЫB ЬB ЭE ЯR ЂH ЋH ӘE ѠW ѢB Ѧa ЖX ЮO "
    "αa βb γy δd εe ζz ηn θo ιi κk λa μmu νv ξe οo πn ρp σo ςsc τt υu φo χx ψw ωw "
    "ΓR ΔAD ΘO ΛA ΞE ΠN ΣE ΦO ΨW ΩO "
    "աw ԲR բp գq զq թp ըn իh լl հh յj նu ոn պw ռn սu վy րn ցg ւl քp օo ՏS ՍU ՕO ՀZ ԼL ՈN "
    "אx הn וl חn טu ךt םo ןl סo עy ץy שw ταt "
    "คa ๒b ςc ๔d ฿B Ŧf ﻮg ђh เi ןj ɭl ๓m ภn ๏o ợo ףp ץy гr รs Շt ยu ש w ฬw אx จa Շt ทn "
    "卂a 乃b 匚c 乇e 千f 卄h 丨i ﾌj ㄥl 爪m 几n ㄖo 卩p 尺r 丂s ㄒt ㄩu 山w 乂x ㄚy 乙z "
    "ᗩa ᗷb ᑕc ᗪd ᗴe ᖴf ᘜg ᕼh ᒍj ᒪl ᗰm ᑎn ᑭp ᑫq ᖇr ᔕs ᑌu ᐯv ᗯw ᐃa "
    "₳a ฿b ₵c ¢c Đd €e ₣f ₲g ₭k £le ₤l ₥m ₦n ₱p ₴s §s ₮t ₩w ¥y ₿b ∀a ∃e ∂d ∑e √v ∩n ∪u ∈e ∅o ⊂c Ⓐa "
    "ðd ðo þp ßb ɑa ɒa ɔc ɘe əe ɛe ɜe ɡg ɣy ɩi ɪi ʃs ʒz ʊu ŋn ƞn ƿp ȝz ɸo ıi ȷj ɾr ſs ꞌi ǃi ǀl ƽs ƨs "
    "ᎠD ᎡR ᎢT ᎥI ᎩY ᎪA ᎫJ ᎬE ᎳW ᎷM ᎻH ᎽY ᏀG ᏂH ᏃZ ᏎB ᏒR ᏔW ᏕS ᏙV ᏚS ᏞL ᏟC ᏢP ᏦK ᏧD ᏮG ᏴB ᎾO Ꭴo ᎰF ᎵP ᏁN ᏗN ᏌU ᏫO ᏇW "
    "ꓐB ꓑP ꓒD ꓓD ꓔT ꓕT ꓖG ꓗK ꓘK ꓙJ ꓚC ꓛC ꓜZ ꓝF ꓞF ꓟM ꓠN ꓡL ꓢS ꓣR ꓤR ꓥV ꓦV ꓧH ꓨG ꓩJ ꓪW ꓫX ꓬY ꓭB ꓮA ꓯA ꓰE ꓱE ꓲI ꓳO ꓴU ꓵU ꓶL ꓷD"
)
_LATIN_NAME = re.compile(
    r"(?:LATIN (?:CAPITAL |SMALL )?LETTER|MODIFIER LETTER|(?:CROSSED )?(?:NEGATIVE )?(?:CIRCLED|SQUARED|PARENTHESIZED)"
    r"(?: LATIN)?(?: CAPITAL| SMALL)? LETTER|REGIONAL INDICATOR SYMBOL LETTER|LATIN SUBSCRIPT SMALL LETTER)"
    r"(?: SMALL| CAPITAL| TURNED| REVERSED| OPEN| SCRIPT| BLACKLETTER| INSULAR| SIDEWAYS| INVERTED| DOTLESS| CLOSED"
    r"| STRETCHED| BARRED| LONG| HALF| BOTTOM| TOP| ROTUNDA| EGYPTOLOGICAL| VOICED| VOLAPUK)* ([A-Z])(?: WITH .*| ROTUNDA)?"
)


@cache
def _drawn() -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in _DRAWN.split():
        if len(entry) > 1:
            found[entry[0]] = found.get(entry[0], "") + entry[1:].lower()
    return found


@cache
def _converters() -> tuple[OpenCC, OpenCC]:
    from opencc import OpenCC

    return OpenCC("jp2t"), OpenCC("t2s")


def _simplified(char: str) -> str:
    """Return the simplified form of a Han character, traditional or Japanese; every other character as it is."""
    if not _HAN.match(char):
        return char
    japanese, traditional = _converters()
    simple = traditional.convert(char)
    # A character that is a simplified one stays what it is, also where Japanese writes another one so.
    simple = simple if simple != char else traditional.convert(japanese.convert(char))
    return simple if len(simple) == 1 else char


def _one_form(char: str) -> str:
    """Return one character for the forms of a kana, a Han character or a part of a Hangul syllable."""
    if "\u30a1" <= char <= "\u30f6":
        return chr(ord(char) - 0x60)
    if "\u11a8" <= char <= "\u11c2":
        name = unicodedata.name(char).replace("JONGSEONG", "CHOSEONG")
        try:
            return unicodedata.lookup(name)
        except KeyError:
            return char
    return _simplified(char)


@lru_cache(maxsize=1 << 16)
def letters_of(char: str) -> str:
    """Return the letters that one character is; '' for what is no letter, or stands beside a word."""
    if char.isascii():
        return char.lower() if char.isalnum() else ""
    category = unicodedata.category(char)
    if category in {"No", "So", "Sk", "Sm"} or _beside(char) or char in VOICING or _NO_LETTER.match(char):
        return ""
    folded = fold_text(_one_form(char))
    return "".join(
        _one_form(piece)
        for piece in unicodedata.normalize("NFKD", folded)
        if piece.isalnum() and unicodedata.category(piece)[0] != "M"
    )


def _beside(char: str) -> bool:
    return unicodedata.decomposition(char).startswith(_BESIDE)


@lru_cache(maxsize=1 << 16)
def looks_of(char: str) -> str:
    """Return the small Latin letters that a character can pass for, the likeliest first."""
    if char.isascii():
        return char.lower() if char.isalpha() else ""
    found = _drawn().get(char, "")
    found += ascii_look(char).lower()
    name = unicodedata.name(char, "")
    if named := _LATIN_NAME.fullmatch(name):
        found += named[1].lower()
    if not found and " WITH " in name:
        with suppress(KeyError):
            found += looks_of(unicodedata.lookup(name.split(" WITH ")[0]))
    if not found:
        for other in (char.upper(), char.lower()):
            if len(other) == 1 and other != char:
                found += _drawn().get(other, "") + ascii_look(other).lower()
    return "".join(dict.fromkeys(found))


@lru_cache(maxsize=1 << 16)
def shapes_of(char: str) -> str:
    """Return the shapes of one character, see this module; '' for what can pass for no letter."""
    if char.isascii():
        shape = char.lower() if char.isalnum() else WRITTEN_FOR.get(char, "")[:1]
        return _ONE_SHAPE.get(shape, shape)
    if _IGNORABLE.match(char) or char in VOICING:
        return ""
    looks = looks_of(char)
    if looks:
        return _ONE_SHAPE.get(looks[0], looks[0])
    pieces = [
        piece
        for piece in unicodedata.normalize("NFKD", char)
        if piece.isalnum() and unicodedata.category(piece)[0] != "M"
    ]
    if pieces == [char]:
        pieces = list(letters_of(char))
    shapes = ((looks_of(piece) or letters_of(piece) or piece)[:1] for piece in pieces)
    return "".join(_ONE_SHAPE.get(shape, shape) for shape in shapes)


@lru_cache(maxsize=1 << 16)
def passes_for(char: str, letter: str) -> bool:
    """Tell whether a character beyond ASCII can pass for a letter of a name."""
    looks = looks_of(char)
    return (
        letter in looks
        or letter in letters_of(char)
        or may_look_like(char, letter)
        or (letter in "il1" and ("i" in looks or "l" in looks))
        or (letter in "o0" and "o" in looks)
    )


def kind_of(char: str) -> int:
    """Return what kind of character one is, as the bits above."""
    if "\x1c" <= char <= "\x1f":
        return INVISIBLE
    if char.isspace() or char == "\u2800":
        return SPACE
    if _IGNORABLE.match(char):
        return INVISIBLE
    if char in _PROSE_OF_EAST_ASIA:
        return PROSE | SPACE
    if char in _PROSE:
        return PROSE
    category = unicodedata.category(char)
    if category[0] not in "LN" or category == "No" or _beside(char) or UNSPACED.match(char) or _APOSTROPHES.match(char):
        return SIGN
    return WORD | (UPPER if category in {"Lu", "Lt"} else LOWER if category == "Ll" else 0)


class Kinds(dict[str, int]):
    """Kinds of characters, each learnt when it is first met."""

    def __missing__(self, char: str) -> int:
        kind = self[char] = kind_of(char)
        return kind


KINDS = Kinds()


class Skeleton:
    """One way to reduce a text, for `str.translate`, and where each character of the result came from.

    Args:
        reduce: what one character becomes; it may be none or several.
    """

    def __init__(self, name: str, reduce: dict[int, str]) -> None:
        self.name = name
        self._table = reduce
        ascii_only = [reduce[code] for code in range(128)]
        self._kept = bytes(ord(piece or " ") for piece in ascii_only) + bytes(128)
        self._dropped = bytes(code for code, piece in enumerate(ascii_only) if not piece)
        # Length of each reduced character, one more than it is, nought where it is not known yet.
        self._lengths = np.zeros(0x110000, np.uint8)

    def of(self, text: str) -> str:
        """Return the reduced text."""
        if text.isascii():
            return text.encode("ascii").translate(self._kept, self._dropped).decode("ascii")
        return text.translate(self._table)

    def sources(self, codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """Return for each character of a reduced text the offset of the code point it came from."""
        lengths = self._lengths[codes]
        unknown = codes[lengths == 0]
        if unknown.size:
            for code in set(unknown.tolist()):
                self._lengths[code] = len(self._table[code]) + 1
            lengths = self._lengths[codes]
        return np.repeat(np.arange(len(codes)), lengths - 1)


class _Letters(dict[int, str]):
    def __missing__(self, code: int) -> str:
        letters = self[code] = letters_of(chr(code))
        return letters


class _Shapes(dict[int, str]):
    def __missing__(self, code: int) -> str:
        shapes = self[code] = shapes_of(chr(code))
        return shapes


class _ShapesOfLetters(dict[int, str]):
    """Shapes, where signs and marks that can pass for letters are signs and marks."""

    def __missing__(self, code: int) -> str:
        shapes = self[code] = "" if is_doubtful(chr(code)) else shapes_of(chr(code))
        return shapes


@lru_cache(maxsize=1 << 16)
def is_doubtful(char: str) -> bool:
    """Tell whether a character has a shape and is no letter or digit of a word."""
    return bool(shapes_of(char)) and not letters_of(char)


LETTERS = Skeleton("letters", _Letters())
SHAPES = Skeleton("shapes", _Shapes())
SHAPES_OF_LETTERS = Skeleton("shapes of letters", _ShapesOfLetters())
