"""The numbers a word processor makes itself, as it prints them (SPEC 1.12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .package import WORD, Element, is_on

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"),
    (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_IRREGULAR = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
_LARGEST = 32_767


def _letters(alphabet: str) -> Callable[[int], str]:
    """Numbers as letters: behind the last one they are doubled, then trebled."""

    def spell(number: int) -> str:
        rounds, place = divmod(number - 1, len(alphabet))
        return alphabet[place] * (rounds + 1)

    return spell


def _cycle(signs: str) -> Callable[[int], str]:
    return lambda number: signs[(number - 1) % len(signs)]


def _signs(first: int, last: int) -> Callable[[int], str]:
    """Numbers up to ``last`` as the signs that follow each other in Unicode, plain digits beyond."""
    return lambda number: chr(first + number - 1) if number <= last else str(number)


def _digits(signs: str) -> Callable[[int], str]:
    return lambda number: "".join(signs[int(digit)] for digit in str(number))


def _counted(digits: str, ten: str, hundred: str, thousand: str, myriad: str, *, full: bool) -> Callable[[int], str]:
    """Numbers as they are counted in Chinese writing; ``full`` if a leading one and noughts between are spoken."""
    powers = ("", ten, hundred, thousand)

    def below_myriad(number: int) -> str:
        text, gap = "", False
        for power in range(3, -1, -1):
            digit = number // 10**power % 10
            if not digit:
                gap = bool(text)
                continue
            if gap and full:
                text += digits[0]
            gap = False
            silent = digit == 1 and power and (not full or (power == 1 and not text))
            text += ("" if silent else digits[digit]) + powers[power]
        return text

    def spell(number: int) -> str:
        high, low = divmod(number, 10_000)
        between = digits[0] if full and high and 0 < low < 1000 else ""
        return (below_myriad(high) + myriad if high else "") + between + below_myriad(low) or digits[0]

    return spell


def _roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN:
        times, number = divmod(number, value)
        text += letters * times
    return text


def _cardinal(number: int) -> str:
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{_ONES[hundreds]} hundred" + (f" {_cardinal(rest)}" if rest else "")
    thousands, rest = divmod(number, 1000)
    return f"{_cardinal(thousands)} thousand" + (f" {_cardinal(rest)}" if rest else "")


def _ordinal_words(number: int) -> str:
    head, dash, last = _cardinal(number).rpartition("-")
    if not dash:
        head, dash, last = _cardinal(number).rpartition(" ")
    last = _IRREGULAR[last] if last in _IRREGULAR else f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return f"{head}{dash}{last}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_CHINESE = _counted("〇一二三四五六七八九", "十", "百", "千", "万", full=True)
_SPELLED: Mapping[str, Callable[[int], str]] = {
    "decimal": str,
    "decimalZero": lambda number: f"{number:02}",
    "upperRoman": lambda number: _roman(number).upper(),
    "lowerRoman": _roman,
    "upperLetter": _letters("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "lowerLetter": _letters("abcdefghijklmnopqrstuvwxyz"),
    "russianUpper": _letters("АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЫЭЮЯ"),
    "russianLower": _letters("абвгдежзиклмнопрстуфхцчшщыэюя"),
    "arabicAlpha": _letters("أبتثجحخدذرزسشصضطظعغفقكلمنهوي"),
    "arabicAbjad": _letters("أبجدهوزحطيكلمنسعفصقرشتثخذضظغ"),
    "hebrew2": _letters("אבגדהוזחטיכלמנסעפצקרשת"),
    "ordinal": _ordinal,
    "cardinalText": lambda number: _cardinal(number).capitalize(),
    "ordinalText": lambda number: _ordinal_words(number).capitalize(),
    "hex": lambda number: f"{number:X}",
    "numberInDash": lambda number: f"- {number} -",
    "decimalFullWidth": _digits("０１２３４５６７８９"),
    "decimalFullWidth2": _digits("０１２３４５６７８９"),
    "decimalHalfWidth": str,
    "decimalEnclosedCircle": _signs(0x2460, 20),
    "decimalEnclosedCircleChinese": _signs(0x2460, 20),
    "decimalEnclosedFullstop": _signs(0x2488, 20),
    "decimalEnclosedParen": _signs(0x2474, 20),
    "chineseCounting": _CHINESE,
    "chineseCountingThousand": _counted("零一二三四五六七八九", "十", "百", "千", "万", full=True),
    "chineseLegalSimplified": _counted("零壹贰叁肆伍陆柒捌玖", "拾", "佰", "仟", "万", full=True),
    "taiwaneseCounting": _counted("零一二三四五六七八九", "十", "百", "千", "萬", full=True),
    "taiwaneseCountingThousand": _counted("零一二三四五六七八九", "十", "百", "千", "萬", full=True),
    "ideographLegalTraditional": _counted("零壹貳參肆伍陸柒捌玖", "拾", "佰", "仟", "萬", full=True),
    "japaneseCounting": _counted("〇一二三四五六七八九", "十", "百", "千", "万", full=False),
    "japaneseLegal": _counted("零壱弐参四伍六七八九", "拾", "百", "阡", "萬", full=False),
    "koreanCounting": _counted("영일이삼사오육칠팔구", "십", "백", "천", "만", full=False),
    "koreanDigital": _digits("영일이삼사오육칠팔구"),
    "koreanDigital2": _digits("零一二三四五六七八九"),
    "koreanLegal": _letters("하나둘셋넷다섯여섯일곱여덟아홉열"),
    "ideographDigital": _digits("〇一二三四五六七八九"),
    "japaneseDigitalTenThousand": _digits("〇一二三四五六七八九"),
    "taiwaneseDigital": _digits("○一二三四五六七八九"),
    "ideographTraditional": _cycle("甲乙丙丁戊己庚辛壬癸"),
    "ideographZodiac": _cycle("子丑寅卯辰巳午未申酉戌亥"),
    "ideographEnclosedCircle": _signs(0x3280, 10),
    "aiueo": _cycle("ｱｲｳｴｵｶｷｸｹｺｻｼｽｾｿﾀﾁﾂﾃﾄﾅﾆﾇﾈﾉﾊﾋﾌﾍﾎﾏﾐﾑﾒﾓﾔﾕﾖﾗﾘﾙﾚﾛﾜｦﾝ"),
    "aiueoFullWidth": _cycle(
        "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
    ),
    "iroha": _cycle("ｲﾛﾊﾆﾎﾍﾄﾁﾘﾇﾙｦﾜｶﾖﾀﾚｿﾂﾈﾅﾗﾑｳヰﾉｵｸﾔﾏｹﾌｺｴﾃｱｻｷﾕﾒﾐｼヱﾋﾓｾｽ"),
    "irohaFullWidth": _cycle(
        "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセス"
    ),
    "ganada": _cycle("가나다라마바사아자차카타파하"),
    "chosung": _cycle("ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"),
    "thaiNumbers": _digits("๐๑๒๓๔๕๖๗๘๙"),
    "hindiNumbers": _digits("०१२३४५६७८९"),
    "none": lambda _: "",
    "bullet": lambda _: "",
}


def spell_number(number: int, number_format: str) -> str:
    """Return a number as a format of WordprocessingML prints it; formats that are not known print digits."""
    if not 0 < number <= _LARGEST:
        zeros = {"decimal", "decimalZero", "chineseCountingThousand", "ordinal", "cardinalText"}
        return _SPELLED[number_format](0) if number == 0 and number_format in zeros else str(number)
    return _SPELLED.get(number_format, str)(number)


BULLET = "-"


@dataclass(slots=True)
class _Level:
    start: int = 1
    number_format: str = "decimal"
    text: str = ""
    restart: int = -1
    legal: bool = False
    style: str = ""


@dataclass(slots=True)
class _List:
    """An abstract list with the counters its lists share."""

    levels: dict[int, _Level] = field(default_factory=dict)
    counters: dict[int, int] = field(default_factory=dict)
    style_link: str = ""


@dataclass(slots=True)
class _Instance:
    abstract: str
    starts: dict[int, int] = field(default_factory=dict)
    levels: dict[int, _Level] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)


class Numbering:
    """The lists of a Word document; counts as their paragraphs are read in order."""

    def __init__(self, root: Element | None, number_styles: Mapping[str, str]) -> None:
        """Read the numbering part.

        Args:
            root: its root, None if the document has none.
            number_styles: list of each numbering style, by the id of the style.
        """
        self._lists: dict[str, _List] = {}
        self._instances: dict[str, _Instance] = {}
        self._number_styles = number_styles
        for entry in root.iter(f"{WORD}abstractNum") if root is not None else ():
            link = entry.find(f"{WORD}numStyleLink")
            self._lists[entry.get(f"{WORD}abstractNumId", "")] = _List(
                {_number(level, "ilvl"): _level(level) for level in entry.iter(f"{WORD}lvl")},
                style_link=link.get(f"{WORD}val", "") if link is not None else "",
            )
        for entry in root.iter(f"{WORD}num") if root is not None else ():
            reference = entry.find(f"{WORD}abstractNumId")
            instance = _Instance(reference.get(f"{WORD}val", "") if reference is not None else "")
            for override in entry.iter(f"{WORD}lvlOverride"):
                place = _number(override, "ilvl")
                start, level = override.find(f"{WORD}startOverride"), override.find(f"{WORD}lvl")
                if start is not None:
                    instance.starts[place] = _number(start, "val")
                if level is not None:
                    instance.levels[place] = _level(level)
            self._instances[entry.get(f"{WORD}numId", "")] = instance

    def level_of_style(self, number_id: str, style: str) -> int:
        """Level of a list that belongs to a paragraph style; 0 if it names none."""
        _, shared = self._find(number_id)
        return next((place for place, level in shared.levels.items() if level.style == style), 0) if shared else 0

    def _find(self, number_id: str) -> tuple[_Instance | None, _List | None]:
        instance = self._instances.get(number_id)
        shared = self._lists.get(instance.abstract) if instance else None
        if shared is not None and not shared.levels and shared.style_link:
            linked = self._instances.get(self._number_styles.get(shared.style_link, ""))
            shared = self._lists.get(linked.abstract, shared) if linked else shared
        return instance, shared

    def next_label(self, number_id: str, place: int) -> str:
        """Count one paragraph of a list and return what is printed before it: ``BULLET``, a number or ''."""
        instance, shared = self._find(number_id)
        if instance is None or shared is None:
            return ""
        level = instance.levels.get(place) or shared.levels.get(place)
        if level is None:
            return ""
        counters = shared.counters
        if place in instance.starts and place not in instance.started:
            counters[place] = instance.starts[place]
        else:
            counters[place] = counters[place] + 1 if place in counters else level.start
        instance.started.add(place)
        for deeper in [known for known in counters if known > place]:
            after = (instance.levels.get(deeper) or shared.levels.get(deeper) or _Level()).restart
            # Level n begins anew behind any level before it, behind the one it names, or never (0).
            if after == -1 or (after > 0 and place < after):
                del counters[deeper]
        if level.number_format == "bullet":
            return BULLET

        def spelled(reference: re.Match[str]) -> str:
            other = int(reference.group(1)) - 1
            its = instance.levels.get(other) or shared.levels.get(other) or _Level()
            value = counters.get(other, its.start)
            return spell_number(value, "decimal" if level.legal else its.number_format)

        return re.sub(r"%([1-9])", spelled, level.text) if level.number_format != "none" or level.text else ""


def _number(element: Element, attribute: str) -> int:
    try:
        return int(element.get(f"{WORD}{attribute}", "0"))
    except ValueError:
        return 0


def _value(element: Element, name: str, default: str) -> str:
    found = element.find(f"{WORD}{name}")
    return default if found is None else found.get(f"{WORD}val", default)


def _level(element: Element) -> _Level:
    start, restart = element.find(f"{WORD}start"), element.find(f"{WORD}lvlRestart")
    return _Level(
        _number(start, "val") if start is not None else 0,
        _value(element, "numFmt", "decimal"),
        _value(element, "lvlText", ""),
        _number(restart, "val") if restart is not None else -1,
        is_on(element.find(f"{WORD}isLgl"), f"{WORD}val"),
        _value(element, "pStyle", ""),
    )
