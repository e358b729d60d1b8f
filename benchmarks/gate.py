"""How much of what the security gate promises it holds: kinds of disguise, false hits, speed (SPEC 5.7).

    python benchmarks/gate.py [--each 40] [--lines 15000] [--list]

Each kind disguises each of some names in some surroundings, seeded. Ordinary lines come from the handed corpora beside the
project, where they are there, and from this system's message catalogues; a line is a false hit where a name is found that
does not stand in it as a word. ``--list`` prints what was missed and what was hit. Takes less than a minute.
"""

from __future__ import annotations

import argparse
import html
import json
import random
import re
import struct
import sys
import tarfile
import time
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

from ragspine_assets.policy import SecurityGate

CORPUS = Path(__file__).resolve().parents[1] / ".." / "shared" / "corpus"
CATALOGUES = Path("/usr/share/locale")

LATIN = (
    "Okeandrift",
    "Siemens",
    "Meta",
    "Asus",
    "Enel",
    "Vandelay Industries",
    "Globex",
    "Initech",
    "Massive Dynamic",
    "Nokia",
)
HAN, KANA = ("竞安保险", "东风汽车", "华润银行", "竞诚"), ("ロボテック", "カブトデンキ", "ひまわり", "ミライガス")
KANA_PAIRS = dict(zip("ロボテックカブトデンキミライガス", "ろぼてっくかぶとでんきみらいがす", strict=True)) | dict(
    zip("ひまわり", "ヒマワリ", strict=True)
)
OTHERS = ("Ромашка", "Северсталь", "Όμιλος", "가나전자")
MORE = [
    "Apple",
    "Intel",
    "Visa",
    "Orange",
    "Oracle",
    "Amazon",
    "Adobe",
    "Cisco",
    "Samsung",
    "Toyota",
    "Hitachi",
    "Generali",
    "Unicredit",
    "Intesa",
    "Eni",
    "Leonardo",
    "Telecom",
    "Danone",
    "Renault",
    "Peugeot",
    "Airbus",
    "Total",
    "Engie",
    "Orano",
    "Santander",
    "Repsol",
    "Iberdrola",
    "Inditex",
    "Telefonica",
    "Bayer",
    "Basf",
    "Allianz",
    "Volkswagen",
    "Daimler",
    "Bosch",
    "Continental",
    "Lufthansa",
    "Adidas",
    "Puma",
    "Unilever",
    "Shell",
    "Barclays",
    "Vodafone",
    "Tesco",
    "Pfizer",
    "Boeing",
    "Ford",
    "Tesla",
    "Nvidia",
    "Netflix",
    "Uber",
    "Airbnb",
    "Paypal",
    "Stripe",
    "Ikea",
    "Ericsson",
    "Volvo",
    "Spotify",
    "Maersk",
    "Carlsberg",
    "Nestle",
    "Novartis",
    "Roche",
    "Prada",
    "Ferrari",
    "Pirelli",
    "Barilla",
    "Lavazza",
    "Tata",
    "Infosys",
    "Wipro",
    "Lenovo",
    "Huawei",
    "Alibaba",
    "Tencent",
    "Baidu",
    "Xiaomi",
    "Sony",
    "Panasonic",
    "Canon",
    "Nikon",
    "Honda",
    "Mazda",
    "Subaru",
    "Rakuten",
    "Nintendo",
    "Sega",
    "Konami",
    "AIA",
    "ING",
    "BMW",
    "SAP",
    "IBM",
    "AMD",
    "KPMG",
    "Acer",
    "Dell",
    "Mango",
    "Zara",
    "Metro",
    "Otto",
    "Aldi",
    "Lidl",
    "Edeka",
    "Carrefour",
    "Auchan",
    "Leroy",
    "Casino",
    "Accor",
    "Sodexo",
    "Vinci",
    "Alstom",
    "Thales",
    "Safran",
    "Legrand",
    "Saint-Gobain",
]

TO_CYRILLIC = dict(zip("aeopcxyisjhkmtABEHKMOPCTXSIJ", "аеорсхуіѕјһкмтАВЕНКМОРСТХЅІЈ", strict=True))
TO_GREEK = dict(zip("aoviuptkyABEHIKMNOPTXYZ", "αονιυρτκγΑΒΕΗΙΚΜΝΟΡΤΧΥΖ", strict=True))
TO_CHEROKEE = dict(zip("ABDEGHIJKLMPRSTVWZ", "ᎪᏴᎠᎬᏀᎻᎥᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃ", strict=True))
TO_LISU = dict(zip("ABCDEFGHIJKLMNOPRSTUVWXYZ", "ꓮꓐꓚꓓꓰꓝꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜ", strict=True))
SMALL_CAPITALS = dict(zip("abcdefghijklmnoprstuvwyz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", strict=True))
FAUX_CYRILLIC = dict(zip("nrubwyNRUBW", "игцьшчИЯЦБШ", strict=True))
ARMENIAN = dict(zip("onuhgqj", "օոսհցզյ", strict=True))
LEET = dict(zip("oiesatbg", "01354789", strict=True))
SUPERSCRIPTS = dict(zip("abdeghijklmnoprstuvwxyz", "ᵃᵇᵈᵉᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))
TRADITIONAL = dict(zip("竞险东风车华润银诚", "競險東風車華潤銀誠", strict=True))
JAPANESE = {"东": "東", "车": "車", "风": "風", "银": "銀", "险": "険", "诚": "誠", "竞": "競", "华": "華", "润": "潤"}
CURRENCY = dict(zip("aceklnptuy", "₳₵€₭£₦₱₮∪¥", strict=True))
IGNORABLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u2061\u2064\u034f\ufe0f\u061c\u115f"
UNASSIGNED = "\u2065\ufff0\ufff8\U000e0080\U000e0fff\U000e0100"
BIDI = "\u200e\u200f\u202a\u202c\u2066\u2069"


def _mapped(table: dict[str, str], *, upper: bool = False) -> Callable[[random.Random, str], str]:
    def disguise(_: random.Random, name: str) -> str:
        text = name.upper() if upper else name
        changed = "".join(table.get(char, table.get(char.lower(), char)) for char in text)
        return changed if changed != text else ""

    return disguise


def _one(table: dict[str, str]) -> Callable[[random.Random, str], str]:
    """Disguise one letter of a name."""

    def disguise(rng: random.Random, name: str) -> str:
        at = [index for index, char in enumerate(name) if char in table]
        if not at:
            return ""
        index = rng.choice(at)
        return name[:index] + table[name[index]] + name[index + 1 :]

    return disguise


def _between(extras: str | tuple[str, ...], times: int = 1) -> Callable[[random.Random, str], str]:
    def disguise(rng: random.Random, name: str) -> str:
        for _ in range(times):
            at = rng.randrange(1, len(name))
            name = name[:at] + rng.choice(extras) + name[at:]
        return name

    return disguise


def _everywhere(sign: str) -> Callable[[random.Random, str], str]:
    return lambda _, name: sign.join(name)


def _behind(*marks: str) -> Callable[[random.Random, str], str]:
    return lambda rng, name: name + rng.choice(marks)


def _wrapped(before: str, after: str) -> Callable[[random.Random, str], str]:
    """Wrap some letters inside a name."""

    def disguise(rng: random.Random, name: str) -> str:
        start = rng.randrange(0, len(name) - 1)
        end = rng.randrange(start + 1, len(name))
        return name[:start] + before + name[start:end] + after + name[end:]

    return disguise


def _spelt(spell: Callable[[str], str], share: float = 0.5) -> Callable[[random.Random, str], str]:
    def disguise(rng: random.Random, name: str) -> str:
        sure = rng.randrange(len(name))
        return "".join(
            spell(char) if index == sure or rng.random() < share else char for index, char in enumerate(name)
        )

    return disguise


def _shifted(upper: int, lower: int) -> Callable[[random.Random, str], str]:
    def disguise(_: random.Random, name: str) -> str:
        return "".join(
            chr(upper + ord(char) - 65)
            if "A" <= char <= "Z"
            else chr(lower + ord(char) - 97)
            if "a" <= char <= "z"
            else char
            for char in name
        )

    return disguise


def _leet(rng: random.Random, name: str) -> str:
    at = [index for index, char in enumerate(name) if char.lower() in LEET]
    chosen = set(rng.sample(at, rng.randint(1, max(1, min(len(at), len(name) // 2)))))
    return "".join(LEET[char.lower()] if index in chosen else char for index, char in enumerate(name))


def _accents(rng: random.Random, name: str) -> str:
    at = [index for index, char in enumerate(name) if char.lower() in "aeioun"]
    index = rng.choice(at) if at else 0
    marked = unicodedata.normalize("NFC", name[index] + rng.choice("\u0301\u0308\u0302"))
    return name[:index] + marked + name[index + 1 :]


def _camel(before: str, after: str) -> Callable[[random.Random, str], str]:
    return lambda _, name: before + name.replace(" ", "") + after


def _plural(_: random.Random, name: str) -> str:
    return name + ("es" if name[-1] in "sxz" else "s")


def _entity(char: str) -> str:
    return f"&#{ord(char)};"


def _bytes(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


class Kind:
    """A kind of disguise: which names it suits, whether it is promised, and how it is done; '' where it does nothing."""

    def __init__(
        self, names: tuple[str, ...], disguise: Callable[[random.Random, str], str], *, promised: bool = True
    ) -> None:
        self.names, self.disguise, self.promised = names, disguise, promised


ALL = (*LATIN, *HAN, *KANA, *OTHERS)
CASED = (*LATIN, "Ромашка", "Северсталь")
LONG = tuple(name for name in LATIN if len(name) > 4)
KINDS = {
    "as it is": Kind(ALL, lambda _, name: name),
    "upper or lower case": Kind(CASED, lambda rng, name: rng.choice((name.upper(), name.lower(), name.swapcase()))),
    "mark behind": Kind(ALL, _behind("™", "®", "©", "℠", "ᵀᴹ", "†", "*", "§", "✓", "↑")),
    "number behind": Kind(ALL, _behind("¹", "²", "³", "①", "⑨", "❶", "⁴²", "ª", "º", "½")),
    "number in brackets behind": Kind(ALL, _behind("[1]", "(1)", "[^1]", "⁽¹⁾", "⑴")),
    "mark before": Kind(ALL, lambda rng, name: rng.choice("①•→★©@#") + name),
    "mark inside": Kind(ALL, _between("™®①¹")),
    "zero width": Kind(ALL, _between(IGNORABLE, 3)),
    "default-ignorable, unassigned": Kind(ALL, _between(UNASSIGNED, 2)),
    "bidi controls": Kind(ALL, _between(BIDI, 2)),
    "right-to-left override": Kind(ALL, lambda _, name: f"\u202e{name[::-1]}\u202c"),
    "soft hyphen": Kind(ALL, _between("\u00ad", 2)),
    "line-end hyphen": Kind(CASED, _between(("-\n", "-\r\n", "\u2010\n", "\u00ad\n", "- \n  "))),
    "control characters": Kind(ALL, _between("\0\x01\x1f\x7f\x9f", 2)),
    "lone surrogates": Kind(ALL, _between("\ud800\udfff")),
    "combining marks": Kind(LATIN, _between("\u0300\u0301\u0323\u0336\u0338\u20dd", 3)),
    "accents": Kind(LATIN, _accents),
    "strokes and hooks": Kind(LATIN, _one(dict(zip("otdlnkes", "øŧđłɲƙɇʂ", strict=True)))),
    "Cyrillic letters": Kind(LATIN, _mapped(TO_CYRILLIC)),
    "one Cyrillic letter": Kind(LATIN, _one(TO_CYRILLIC)),
    "Cyrillic capitals": Kind(LATIN, _mapped(TO_CYRILLIC, upper=True)),
    "rest of Cyrillic": Kind(LATIN, _one(FAUX_CYRILLIC)),
    "Greek letters": Kind(LATIN, _one(TO_GREEK)),
    "Greek capitals": Kind(LATIN, _mapped(TO_GREEK, upper=True)),
    "Cherokee": Kind(LATIN, _mapped(TO_CHEROKEE, upper=True)),
    "Lisu": Kind(LATIN, _mapped(TO_LISU, upper=True)),
    "Armenian": Kind(LATIN, _one(ARMENIAN)),
    "small capitals": Kind(LATIN, _mapped(SMALL_CAPITALS)),
    "full width": Kind(LATIN, _shifted(0xFF21, 0xFF41)),
    "mathematical bold": Kind(LATIN, _shifted(0x1D400, 0x1D41A)),
    "mathematical sans": Kind(LATIN, _shifted(0x1D5A0, 0x1D5BA)),
    "mathematical fraktur": Kind(LATIN, _shifted(0x1D56C, 0x1D586)),
    "monospace": Kind(LATIN, _shifted(0x1D670, 0x1D68A)),
    "circled": Kind(LATIN, _shifted(0x24B6, 0x24D0)),
    "squared": Kind(LATIN, lambda rng, name: _shifted(rng.choice((0x1F130, 0x1F150, 0x1F170)), 0)(rng, name.upper())),
    "regional indicators": Kind(LATIN, lambda rng, name: _shifted(0x1F1E6, 0)(rng, name.upper())),
    "superscript letters": Kind(LATIN, _mapped(SUPERSCRIPTS)),
    "digits for letters": Kind(LATIN, _leet),
    "signs for letters": Kind(LATIN, _one({"a": "@", "s": "$", "i": "!", "l": "|", "t": "+"})),
    "l for I, I for l": Kind(("Globex", "Initech", "Intel"), _one({"l": "I", "I": "l"})),
    "hyphens and dots": Kind(ALL, lambda rng, name: rng.choice("-._·").join(name)),
    "spaces": Kind(ALL, lambda rng, name: rng.choice((" ", "  ", "\u00a0", "\u2009")).join(name)),
    "one space": Kind(CASED, _between((" ", "\u00a0", "\u3000", "\t"))),
    "line break": Kind(CASED, _between(("\n", "\r\n", "\u2028"))),
    "one slash, bar, comma, quote, star": Kind(CASED, _between("/|,'*")),
    "slashes, bars, commas, quotes, stars": Kind(CASED, lambda rng, name: rng.choice("/|,'*").join(name)),
    "other signs": Kind(CASED, _between("~+=:;^\"#&\\<>")),
    "bold": Kind(ALL, _wrapped("**", "**")),
    "italics and code": Kind(ALL, lambda rng, name: _wrapped(*(2 * (rng.choice(("*", "_", "`", "~~")),)))(rng, name)),
    "tags": Kind(ALL, _wrapped("<b>", "</b>")),
    "tags with attributes": Kind(ALL, _wrapped('<span class="x y" style="color:red">', "</span>")),
    "line break tags and comments": Kind(ALL, _between(("<br>", "<br/>", "<wbr>", "<!-- x -->", "<!---->"))),
    "links": Kind(ALL, _wrapped("[", "](https://a.example/b)")),
    "invisible entities": Kind(ALL, _between(("&shy;", "&#8203;", "&zwj;", "&nbsp;", "&#x200B;", "&ZeroWidthSpace;"))),
    "entities": Kind(ALL, _spelt(_entity)),
    "entities, hexadecimal": Kind(ALL, _spelt(lambda char: f"&#x{ord(char):x};")),
    "escaped entities": Kind(ALL, _spelt(lambda char: html.escape(_entity(char)))),
    "backslash escapes": Kind(ALL, _spelt(lambda char: f"\\u{ord(char):04x}")),
    "backslashes": Kind(CASED, _between("\\")),
    "percent encoding": Kind(ALL, _spelt(_bytes)),
    "query string": Kind(("Vandelay Industries", *HAN), lambda _, name: urllib.parse.quote_plus(name)),
    "quoted-printable": Kind(LATIN, _spelt(lambda char: "".join(f"={byte:02X}" for byte in char.encode()))),
    "soft line break": Kind(ALL, _between(("=\n", "=\r\n"))),
    "CamelCase": Kind(LATIN, _camel("The", "Deal")),
    "CamelCase, first": Kind(LATIN, _camel("", "Holding")),
    "camelCase, last": Kind(LATIN, _camel("my", "")),
    "snake_case": Kind(LATIN, lambda _, name: f"my_{name.lower().replace(' ', '_')}_file"),
    "plural": Kind(LATIN, _plural),
    "possessive": Kind(LATIN, _behind("'s", "\u2019s", "'", "\u02bcs", "`s")),
    "the other kana": Kind(KANA, lambda _, name: "".join(KANA_PAIRS.get(char, char) for char in name)),
    "half-width kana": Kind(
        ("ロボテック", "カブトデンキ", "ミライガス"),
        lambda _, name: "".join(_HALF.get(char, char) for char in unicodedata.normalize("NFD", name)),
    ),
    "kana in parts": Kind(KANA, lambda _, name: unicodedata.normalize("NFD", name)),
    "Han for kana": Kind(("ロボテック", "カブトデンキ", "ミライガス"), _mapped({"ロ": "口", "カ": "力", "ト": "卜"})),
    "traditional Han": Kind(HAN, lambda _, name: "".join(TRADITIONAL.get(char, char) for char in name)),
    "Japanese Han": Kind(HAN, lambda _, name: "".join(JAPANESE.get(char, char) for char in name)),
    "separated Han and kana": Kind((*HAN, *KANA), lambda rng, name: rng.choice(" ·-_/|*").join(name)),
    "Latin for Cyrillic": Kind(("Ромашка", "Северсталь"), _mapped(dict(zip("РоаСеврт", "PoaCeвpт", strict=True)))),
    "Hangul in parts": Kind(("가나전자",), lambda _, name: unicodedata.normalize("NFD", name)),
    # Not promised.
    "fake Asian letters": Kind(
        LATIN, _mapped(dict(zip("abcefhilmnoprstuwxyz", "卂乃匚乇千卄丨ㄥ爪几ㄖ卩尺丂ㄒㄩ山乂ㄚ乙", strict=True))), promised=False
    ),
    "fake Canadian syllabics": Kind(LATIN, _mapped(dict(zip("abcdehlmnprsuvw", "ᗩᗷᑕᗪᗴᕼᒪᗰᑎᑭᖇᔕᑌᐯᗯ", strict=True))), promised=False),
    "currency signs": Kind(LATIN, _one(CURRENCY), promised=False),
    "upside down": Kind(
        LATIN, lambda _, name: "".join(dict(zip("aehikmnrtvwy", "ɐǝɥᴉʞɯuɹʇʌʍʎ", strict=True)).get(c, c) for c in name), promised=False
    ),
    "reversed": Kind(LATIN, lambda _, name: name[::-1], promised=False),
    "doubled letter": Kind(LATIN, lambda rng, name: (at := rng.randrange(len(name)), name[:at] + name[at] + name[at:])[1], promised=False),
    "rn for m, vv for w": Kind(("Okeandrift", "Siemens"), _one({"m": "rn", "d": "cl"}), promised=False),
    "two kinds at once": Kind(LATIN, lambda rng, name: _one(TO_CYRILLIC)(rng, _between("\u200b-.*", 2)(rng, name)), promised=False),
    "digits and separators": Kind(LATIN, lambda rng, name: rng.choice("-._ ").join(_leet(rng, name)), promised=False),
}  # fmt: skip
_HALF = {
    full: half
    for code in range(0xFF66, 0xFFA0)
    for half in [chr(code)]
    for full in [unicodedata.normalize("NFKC", half)]
} | {"\u3099": "\uff9e", "\u309a": "\uff9f"}

AROUND = (("", ""), ("We met ", " there."), ("(", ")"), ("of ", ", 2024"), ("\n", "\n"), ("See \u201c", "\u201d now"))


def caught(each: int, *, show: bool) -> tuple[int, int, int, int]:
    """Print what is caught of each kind; return caught and tried, of those promised and of all."""
    gate = SecurityGate({name: name for name in {*ALL, "Intel"}}, "Home")
    totals = [0, 0, 0, 0]
    print(f"{'kind of disguise':40} {'tried':>6} {'caught':>7}  promised")
    for number, (name, kind) in enumerate(KINDS.items()):
        rng = random.Random(number)
        tried = found = 0
        for turn in range(each):
            alias = kind.names[turn % len(kind.names)]
            disguised = kind.disguise(rng, alias)
            if not disguised:
                continue
            before, after = rng.choice(AROUND)
            tried += 1
            hit = gate.detect(f"{before}{disguised}{after}").external_entity is not None
            found += hit
            if not hit and show:
                print(
                    f"    missed {alias}: {before + disguised + after!a} {disguised}".encode(
                        "utf-8", "replace"
                    ).decode()
                )
        totals = [
            total + more
            for total, more in zip(totals, (found * kind.promised, tried * kind.promised, found, tried), strict=True)
        ]
        print(f"{name:40} {tried:6} {100 * found / max(tried, 1):6.1f}%  {'yes' if kind.promised else 'no'}")
    return totals[0], totals[1], totals[2], totals[3]


def _translations(catalogue: bytes) -> Iterator[str]:
    """Yield the lines of a GNU message catalogue in its own language, the first message, its header, left out."""
    order = "<" if catalogue[:4] == b"\xde\x12\x04\x95" else ">"
    number, _, start = struct.unpack_from(f"{order}3I", catalogue, 8)
    for index in range(1, number):
        length, offset = struct.unpack_from(f"{order}2I", catalogue, start + 8 * index)
        yield from catalogue[offset : offset + length].decode("utf-8", "replace").replace("\0", "\n").splitlines()


def ordinary_lines(limit: int) -> Iterator[tuple[str, list[str]]]:
    """Yield a language and some of its ordinary lines."""
    found: dict[str, set[str]] = {}
    archive = CORPUS / "manpages.tar.xz"
    if archive.exists():
        with tarfile.open(archive) as pages:
            for page in pages:
                parts = page.name.split("/")
                if page.isfile() and len(parts) == 3 and len(found.get(parts[1], ())) < 3 * limit:
                    held = pages.extractfile(page)
                    assert held is not None
                    found.setdefault(parts[1], set()).update(held.read().decode("utf-8", "replace").splitlines())
    for archive in sorted((CORPUS / "ir").glob("*.tar.xz")):
        language = archive.name.split(".")[0].rpartition("_")[2]
        with tarfile.open(archive) as passages:
            for member in passages:
                if member.name.endswith("docs.jsonl") and (held := passages.extractfile(member)):
                    for line in held:
                        found.setdefault(f"{language}, prose", set()).update(
                            re.split(r"(?<=[.。!?])\s*", json.loads(line)["text"])
                        )
    for language in ("es", "fr", "de", "pt_BR", "it"):
        lines = found.setdefault(f"{language}, messages", set())
        for path in sorted((CATALOGUES / language / "LC_MESSAGES").glob("*.mo")):
            lines.update(_translations(path.read_bytes()))
    for language, lines in found.items():
        kept = sorted(line for line in lines if len(line.strip()) > 20)
        random.Random(7).shuffle(kept)
        if kept:
            yield language, kept[:limit]


def _standing(name: str) -> re.Pattern[str]:
    """Return what matches a name as it is: a word, its plural, a word of a CamelCase name, or inside Han and kana."""
    word = re.escape(name)
    if not name.isascii():
        return re.compile(word, re.IGNORECASE)
    return re.compile(
        rf"(?<![A-Za-z0-9])(?i:{word})(?i:e?s)?(?![A-Za-z0-9])"
        rf"|(?<![A-Za-z0-9]){word}(?=[A-Z])|(?<=[A-Za-z]){word}(?=[A-Z]|(?![A-Za-z0-9]))",
        re.ASCII,
    )


def false_hits(limit: int, *, show: bool) -> None:
    """Print how many ordinary lines of each language name somebody who is not there."""
    gate = SecurityGate({name: name for name in {*ALL, *MORE}}, "Home")
    names = {name: _standing(name) for name in {*ALL, *MORE}}
    print(f"\n{'ordinary lines':24} {'lines':>7} {'false':>6} {'per 15,000':>11} {'MB/s':>7}")
    for language, lines in ordinary_lines(limit):
        start = time.process_time()
        hits = [(line, found) for line in lines if (found := gate.detect(line).external_entity)]
        took = time.process_time() - start
        wrong = []
        for line, found in hits:
            if not names[found].search(line):
                wrong.append((line, found))
        size = sum(len(line.encode("utf-8", "replace")) for line in lines)
        print(
            f"{language:24} {len(lines):7} {len(wrong):6} {15000 * len(wrong) / len(lines):11.2f} {size / took / 1e6:7.2f}"
        )
        if show:
            for line, found in wrong:
                print(f"    {found}: {line.strip()[:160]}")


def main() -> int:
    """Print both tables and say whether the promise is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=40, help="disguises of a kind")
    parser.add_argument("--lines", type=int, default=15000, help="ordinary lines of a language")
    parser.add_argument("--list", action="store_true", help="print what was missed and hit")
    given = parser.parse_args()
    promised, of_promised, every, of_all = caught(given.each, show=given.list)
    print(
        f"\npromised {100 * promised / of_promised:.1f}% of {of_promised}, all {100 * every / of_all:.1f}% of {of_all}"
    )
    false_hits(given.lines, show=given.list)
    return 0


if __name__ == "__main__":
    sys.exit(main())
