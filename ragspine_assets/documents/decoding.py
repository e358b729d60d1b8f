"""Bytes of a text file become text, and how the encoding was found is remembered (SPEC 1.4)."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from ragspine_assets.errors import RagspineError

from .plausibility import plausibility


class UndecodableText(RagspineError, ValueError):
    """The bytes are not text, or not in an encoding that can be decoded here.

    The message is one line for the person who must act and quotes nothing of the bytes.
    """


@dataclass(frozen=True, slots=True)
class DecodedText:
    """The text of a file, and the encoding it was read with.

    Attributes:
        text: the decoded text without byte order mark, otherwise as it was.
        encoding: name of the codec, as Python spells it.
        found_by: ``bom``, ``utf-8``, ``nul-pattern``, ``iso-2022``, ``declared`` or ``detected``.
    """

    text: str
    encoding: str
    found_by: str


# UTF-32 first: its little-endian mark begins with that of UTF-16.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Encodings without a mark, in the order that settles a tie: what is found in the wild most often comes first. The
# number is how much evidence an encoding must bring before it beats its neighbours: it counts in short texts alone.
_CANDIDATES: dict[str, float] = {
    "gb18030": 0.0,
    "cp950": 0.0,
    "big5hkscs": 0.1,
    "cp932": 0.0,
    "euc_jp": 0.0,
    "cp949": 0.0,
    "cp1252": 0.0,
    "cp1251": 0.1,
    "koi8-r": 0.1,
    "koi8-u": 0.15,
    "cp866": 0.1,
    "cp1250": 0.2,
    "iso8859-2": 0.2,
    "cp1253": 0.1,
    "iso8859-7": 0.1,
    "cp1254": 0.2,
    "cp1255": 0.1,
    "iso8859-8": 0.1,
    "cp1256": 0.1,
    "iso8859-6": 0.1,
    "cp1257": 0.2,
    "iso8859-13": 0.25,
    "cp874": 0.6,
    "iso8859-15": 0.1,
    "iso8859-5": 0.4,
    "mac-roman": 0.2,
    "cp850": 0.2,
    "cp437": 0.2,
    "cp852": 0.3,
    "mac-cyrillic": 0.6,
    "latin-1": 0.3,
    "utf-16-le": 0.4,
    "utf-16-be": 0.4,
}

_IMPLAUSIBLE = -4.6
"""Below this ``plausibility`` the best decoding is no text either."""

_DOUBTFUL = -4.0
"""Below this it may be an encoding that is not among the candidates."""

_SAMPLE_BYTES = 8192


def decode_text(data: bytes, *, markup: bool = False) -> DecodedText:
    """Decode the bytes of a text file.

    A byte order mark decides; else strict UTF-8, unless NUL bytes or the escapes of ISO-2022 say otherwise; else the
    decodings that are possible are compared, with the guess of charset-normalizer among them (SPEC 1.4).

    Args:
        data: the bytes of the whole file.
        markup: whether an encoding the file declares, as HTML and XML can, is to be believed if it fits.

    Raises:
        UndecodableText: it is not text, or not in an encoding that can be decoded.
    """
    return _checked(_decode(data, markup))


def decode_declared(data: bytes, encoding: str) -> DecodedText:
    """Decode bytes whose encoding is named beside them, as in the header of a mail.

    Args:
        data: the bytes.
        encoding: the name; it is believed before anything but a byte order mark, if the bytes fit it.

    Raises:
        UndecodableText: as ``decode_text``.
    """
    name = _known(encoding)
    if name and not data.startswith(tuple(mark for mark, _ in _BOMS)) and (text := _strictly(data, name)) is not None:
        return _checked(DecodedText(text, name, "declared"))
    return decode_text(data)


def _decode(data: bytes, markup: bool) -> DecodedText:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            text = _strictly(data[len(mark) :], encoding)
            if text is not None:
                return DecodedText(text, encoding, "bom")
            if encoding.startswith("utf-32"):
                continue
            raise UndecodableText(f"it begins with the byte order mark of {encoding} but is not valid {encoding}")
    if b"\x1b" in data and data.isascii() and (found := _iso_2022(data)):
        return found
    if b"\x00" in data and (found := _by_nul_pattern(data)):
        return found
    text = _strictly(data, "utf-8")
    if text is not None:
        return DecodedText(text, "utf-8", "utf-8")
    _refuse_damaged_utf8(data)
    return _compared(data, _declared(data) if markup else "")


def _strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None


# A text may hold a few control characters (form feeds, escapes of a terminal, a stray NUL); a program is full of them.
_CONTROLS = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")


def _checked(decoded: DecodedText) -> DecodedText:
    # Some programs fill the last block of a file with NUL.
    count = sum(1 for _ in _CONTROLS.finditer(decoded.text.rstrip("\0")))
    if count >= 4 and count * 12 > len(decoded.text):
        raise UndecodableText("it is not text: too many of its characters are control characters")
    return decoded


# --- marks in the bytes ------------------------------------------------------------------------------------------


def _by_nul_pattern(data: bytes) -> DecodedText | None:
    """UTF-16 or UTF-32 without a byte order mark: ASCII characters leave NUL bytes in fixed places."""
    size = len(data)
    if size % 4 == 0:
        zeros = [data[place::4].count(0) * 4 / size for place in range(4)]
        # The first byte of a character is always NUL, the second one nearly so (the planes behind the first).
        for encoding, first, second, last in (("utf-32-be", 0, 1, 3), ("utf-32-le", 3, 2, 0)):
            if zeros[first] == 1 and zeros[second] > 0.5 and zeros[last] < 0.5:
                text = _strictly(data, encoding)
                if text is not None:
                    return DecodedText(text, encoding, "nul-pattern")
    if size % 2 == 0:
        even, odd = data[::2].count(0) * 2 / size, data[1::2].count(0) * 2 / size
        # A text of single bytes may hold a stray NUL; a wide one that is valid UTF-8 as well is nearly all ASCII.
        enough = 0.25 if _strictly(data, "utf-8") is None else 0.5
        for encoding, high, low in (("utf-16-be", even, odd), ("utf-16-le", odd, even)):
            if high > enough and low < 0.05:
                text = _strictly(data, encoding)
                if text is not None:
                    return DecodedText(text, encoding, "nul-pattern")
    return None


def _iso_2022(data: bytes) -> DecodedText | None:
    if re.search(rb"\x1b\$\)C", data):
        names = ["iso2022_kr"]
    elif re.search(rb"\x1b\$[)*+][AGHE]", data):
        return _iso_2022_cn(data)
    elif re.search(rb"\x1b(?:\$[@AB]|\$\([A-DO-Q]|\([BIJ])", data):
        names = ["iso2022_jp", "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3", "iso2022_jp_ext"]
    else:
        return None
    for name in names:
        text = _strictly(data, name)
        if text is not None:
            return DecodedText(text, name, "iso-2022")
    return None


def _iso_2022_cn(data: bytes) -> DecodedText | None:
    """Python has no codec for ISO-2022-CN; its GB 2312 part is GB 2312 with the high bits off, between two shifts."""
    if re.search(rb"\x1b\$(?:\)[GE]|[*+])", data):
        raise UndecodableText("it is ISO-2022-CN with characters of CNS 11643, which nothing here can decode")
    plain = data.replace(b"\x1b$)A", b"")
    try:
        parts = re.split(b"\x0e([^\x0f\n]*)\x0f?", plain)
        text = "".join(
            (bytes(byte | 0x80 for byte in part).decode("gb2312") if number % 2 else part.decode("ascii"))
            for number, part in enumerate(parts)
        )
    except UnicodeDecodeError:
        return None
    return DecodedText(text, "iso2022_cn", "iso-2022")


def _refuse_damaged_utf8(data: bytes) -> None:
    """Bytes that are UTF-8 but for a few places are a damaged file, not a legacy encoding."""
    text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd") - data.count("\ufffd".encode())
    sound = sum(1 for _ in re.finditer("[^\x00-\x7f\ufffd]", text))
    if sound >= 10 and damaged * 20 < sound:
        line = text.count("\n", 0, text.index("\ufffd")) + 1
        places = f"{damaged} place{'s' if damaged > 1 else ''}"
        raise UndecodableText(f"it is UTF-8, but damaged in {places}, first in line {line}")


_DECLARATION = re.compile(
    rb"""<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([\w.:-]{1,40}) | <meta\b[^>]{0,400}?\bcharset\s*=\s*["']?([\w.:-]{1,40})""",
    re.IGNORECASE | re.VERBOSE,
)

# What pages call an encoding, and the superset that is meant.
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "cp950",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "windows-874": "cp874",
    "x-sjis": "cp932",
    "x-gbk": "gb18030",
    "x-euc-jp": "euc_jp",
    "x-mac-roman": "mac-roman",
}


_NO_ENCODINGS = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined", "charmap", "mbcs", "oem"}
)


def _declared(data: bytes) -> str:
    found = _DECLARATION.search(data[:4096])
    return _known((found.group(1) or found.group(2)).decode("ascii", "ignore")) if found else ""


def _known(name: str) -> str:
    """The codec that is meant by the name a document gives its encoding; '' for none that is worth a try."""
    name = name.lower()
    try:
        known = codecs.lookup(_MEANT.get(name, name))
    except (LookupError, ValueError):
        return ""
    if not getattr(known, "_is_text_encoding", True) or known.name.startswith("utf") or known.name in _NO_ENCODINGS:
        # A document that says it is Unicode and got this far is not.
        return ""
    return _MEANT.get(known.name, known.name)


# --- comparison --------------------------------------------------------------------------------------------------


def _sample(data: bytes) -> bytes:
    """Lines that hold bytes outside ASCII, from all over the file, ``_SAMPLE_BYTES`` of them or a little more."""
    if len(data) <= _SAMPLE_BYTES:
        return data
    taken: list[bytes] = []
    size = 0
    # Windows from all over the file; each is cut to whole lines, or at least to where an ASCII byte ends a character.
    count = 16
    window = 8 * _SAMPLE_BYTES // count
    step = max(window, (len(data) - window) // (count - 1))
    for start in range(0, len(data), step):
        piece = data[start : start + window]
        lines = [line for line in piece.split(b"\n")[1 if start else 0 :] if not line.isascii()]
        if not lines and not piece.isascii():
            # One long line: begin where an ASCII byte ends a character.
            inside = re.search(rb"[\x00-\x2f\x3a-\x3f]", piece)
            lines = [piece[inside.start() if inside else 0 :]]
        room = _SAMPLE_BYTES // count
        for line in lines:
            if room <= 0:
                break
            taken.append(line[: 4 * _SAMPLE_BYTES // count])
            room -= len(taken[-1])
            size += len(taken[-1])
    return b"\n".join(taken) or data[:_SAMPLE_BYTES]


_OUTSIDE_ASCII = bytes(range(0x80, 0x100))


def _compared(data: bytes, declared: str) -> DecodedText:
    sample = _sample(data)
    whole = len(sample) == len(data)
    names = dict(_CANDIDATES)
    if declared:
        names.setdefault(declared, 0.0)
    if guess := _guessed(sample):
        names.setdefault(guess, 0.6)
    outside = len(sample) - len(sample.translate(None, _OUTSIDE_ASCII)) or 1
    ranked: list[tuple[float, float, str]] = []
    for name, handicap in names.items():
        if name.startswith("utf-16") and len(data) % 2:
            continue
        try:
            text = sample.decode(name, "strict" if whole else "replace")
        except (UnicodeDecodeError, LookupError):
            continue
        handicap_here = handicap * 5 / outside
        score = plausibility(text)
        ranked.append((score - handicap_here + (1.0 if name == declared else 0.0), score, name))
    ranked.sort(key=lambda entry: -entry[0])
    if max((score for _, score, _ in ranked), default=_IMPLAUSIBLE) < _DOUBTFUL and _looks_like_euc_tw(sample):
        raise UndecodableText("it is EUC-TW, which nothing here can decode: store it as UTF-8")
    for _, score, name in ranked:
        if score < _IMPLAUSIBLE:
            continue
        text = _strictly(data, name)
        if text is not None:
            return DecodedText(text, name, "declared" if name == declared else "detected")
    raise UndecodableText("it is not text in any encoding that can be told")


def _guessed(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(sample, steps=5, chunk_size=512).best()
    if best is None or b"Text".decode(best.encoding, "ignore") != "Text":
        # Encodings of mainframes decode anything.
        return ""
    return codecs.lookup(best.encoding).name


_PAIR = re.compile(rb"\x8e[\xa1-\xb0][\xa1-\xfe]{2}|[\xa1-\xfe]{2}")


def _looks_like_euc_tw(sample: bytes) -> bool:
    """Whether the bytes are pairs as EUC-TW has them: ideographs begin at 0xC4, and before that come symbols alone.

    In every other encoding of pairs the ideographs or syllables used most begin between 0xAA and 0xC3.
    """
    if re.search(rb"[\x80-\xff]", _PAIR.sub(b"", sample)):
        return False
    leads = [pair[0] for pair in _PAIR.findall(sample) if pair[0] != 0x8E]
    ideographs = sum(1 for lead in leads if lead >= 0xC4)
    return ideographs >= 20 and ideographs * 2 > len(leads) and not any(0xA9 < lead < 0xC4 for lead in leads)
