"""Numbers of a spreadsheet as its cells display them (SPEC 1.12)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache

BUILT_IN = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM",
    20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0 ;(#,##0)", 38: "#,##0 ;(#,##0)",
    39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "0.0E+0",
    49: "@",
}  # fmt: skip
"""Formats that have no code of their own in a workbook; those that follow the reader's country are given as ISO 8601."""

_TOKEN = re.compile(
    r'"([^"]*)"|\\(.)|_.|\*.|\[\$([^\]-]*)[^\]]*\]|\[(h+|m+|s+)\]|\[[^\]]*\]|(General)|(AM/PM|A/P|上午/下午)'
    r"|([yY]+|[mM]+|[dD]+|[hH]+|[sS]+|[eg]+(?![+-]))|(\.0+)|([0#?.,]+)|([Ee][+-])|(%)|(@)|(/)|(.)",
    re.DOTALL,
)
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_LAST_DAY = 2_958_466


@lru_cache(maxsize=1024)
def _sections(code: str) -> tuple[str, ...]:
    return tuple(re.findall(r'((?:"[^"]*"|\\.|\[[^\]]*\]|[^;])*)(?:;|$)', code)[:4]) or ("General",)


@lru_cache(maxsize=1024)
def is_date(code: str) -> bool:
    """Tell whether a format shows a date or a time."""
    bare = re.sub(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]|General|[Ee][+-]', "", _sections(code)[0])
    return bool(re.search(r"[yYmMdDhHsSeg]", bare))


def general(value: str) -> str:
    """Return a stored number in at most 15 significant digits, as a cell without a format shows it."""
    try:
        number = Decimal(value)
    except InvalidOperation:
        return value
    if not number.is_finite():
        return value
    digits = number.normalize() if len(number.as_tuple().digits) <= 15 else Decimal(f"{number:.15g}").normalize()
    return f"{digits:f}" if -10 < digits.adjusted() < 16 else f"{digits:E}"


def displayed(value: str, code: str, *, from_1904: bool = False) -> str:
    """Return a stored number as a number format displays it.

    Args:
        value: the number, as the file has it.
        code: the code of the format; what it cannot be used for is shown without one.
        from_1904: whether days are counted from 1904.
    """
    if code == "General" or not code:
        return general(value)
    try:
        number = Decimal(value)
    except InvalidOperation:
        return value
    if not number.is_finite():
        return value
    sections = _sections(code)
    if is_date(code):
        return _date(number, sections[0], from_1904=from_1904) or general(value)
    section = sections[0]
    if number < 0 and len(sections) > 1 and sections[1] != "":
        section, number = sections[1], -number
    elif number == 0 and len(sections) > 2:
        section = sections[2]
    if section == "" or section.strip() == "General":
        return general(str(number))
    if re.search(r"[?#0] *[?#0]*/", section):
        # Fractions: the number itself says more.
        return general(value)
    return _number(number, section)


def _number(number: Decimal, section: str) -> str:
    tokens = list(_TOKEN.finditer(section))
    percent = sum(1 for token in tokens if token.group(11))
    digits = "".join(token.group(8) or token.group(9) or "" for token in tokens)
    exponent = any(token.group(10) for token in tokens)
    if not re.search(r"[0#?]", digits) and not any(token.group(5) for token in tokens):
        # A section of words only: what it hides is the value.
        return "".join(_literal(token) for token in tokens).strip()
    number = number.scaleb(2 * percent)
    scale = re.search(r"(,+)(?:\.|$)", digits.rstrip("%"))
    whole, _, rest = digits.partition(".")
    number = number.scaleb(-3 * len(scale.group(1))) if scale and not exponent else number
    places = sum(char in "0#?" for char in rest)
    if exponent:
        mantissa = sum(char in "0#?" for char in digits.partition(".")[2].partition("E")[0])
        return f"{number:.{mantissa if mantissa < 15 else 2}E}"
    try:
        rounded = abs(number).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    except InvalidOperation:
        return general(str(number))
    text = f"{rounded:f}"
    integer, _, fraction = text.partition(".")
    optional = len(rest) - len(rest.rstrip("#"))
    while optional and fraction.endswith("0"):
        fraction, optional = fraction[:-1], optional - 1
    least = sum(char == "0" for char in whole)
    integer = integer.lstrip("0").rjust(least, "0")
    if "," in whole.rstrip(","):
        integer = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", ",", integer)
    body = integer + ("." + fraction if fraction or rest.rstrip("#") else "")
    written, pieces = False, ["-"] if number < 0 and rounded != 0 else []
    for token in tokens:
        if token.group(8) or token.group(9):
            if not written:
                pieces.append(body)
            written = True
        elif token.group(5):
            pieces.append(general(str(abs(number))))
        elif token.group(11):
            pieces.append("%")
        else:
            pieces.append(_literal(token))
    return "".join(pieces).strip()


def _literal(token: re.Match[str]) -> str:
    quoted, escaped, currency = token.group(1), token.group(2), token.group(3)
    if token.group(0)[0] == "_":
        return " "
    return quoted or escaped or currency or token.group(13) or token.group(14) or token.group(7) or ""


def _date(number: Decimal, section: str, *, from_1904: bool) -> str:
    days = float(number)
    if not 0 <= days < _LAST_DAY:
        return ""
    # The calendar of spreadsheets has a 29th of February 1900 that never was.
    start = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 31) if days < 60 else datetime(1899, 12, 30)  # noqa: DTZ001
    moment = start + timedelta(days=days)
    fraction = re.search(r"[sS]\.(0+)", section)
    step = 10 ** (6 - min(len(fraction.group(1)), 6)) if fraction else 1_000_000
    micro = (moment.microsecond + step // 2) // step * step
    moment = moment.replace(microsecond=0) + timedelta(microseconds=micro)
    tokens = list(_TOKEN.finditer(section))
    noon = any(token.group(6) for token in tokens)
    pieces: list[str] = []
    before = ""
    for place, token in enumerate(tokens):
        elapsed, letters = token.group(4), token.group(7)
        if elapsed:
            seconds = round(days * 86_400)
            total = {"h": seconds // 3600, "m": seconds // 60, "s": seconds}[elapsed[0].lower()]
            pieces.append(f"{total:0{len(elapsed)}}")
            before = elapsed[0].lower()
        elif letters:
            unit = letters[0].lower()
            following = next((later.group(7)[0].lower() for later in tokens[place + 1 :] if later.group(7)), "")
            minutes = unit == "m" and len(letters) < 3 and (before == "h" or following == "s")
            pieces.append(_unit(moment, unit, len(letters), minutes=minutes, noon=noon))
            before = unit
        elif token.group(6):
            pieces.append("AM" if moment.hour < 12 else "PM")
        elif token.group(8) and before == "s":
            pieces.append("." + f"{moment.microsecond:06}"[: len(token.group(8)) - 1])
        elif token.group(8) or token.group(9):
            pieces.append(re.sub("[0#?]", "", token.group(0)))
        elif not token.group(12):
            pieces.append(_literal(token))
    return "".join(pieces).strip()


def _unit(moment: datetime, unit: str, length: int, *, minutes: bool, noon: bool) -> str:
    if minutes:
        return f"{moment.minute:0{min(length, 2)}}"
    if unit == "y":
        return f"{moment.year:04}" if length > 2 else f"{moment.year % 100:02}"
    if unit in {"m", "d"} and length > 2:
        name = _MONTHS[moment.month - 1] if unit == "m" else _DAYS[moment.weekday()]
        return name[:3] if length == 3 else name[:1] if length == 5 and unit == "m" else name
    hour = (moment.hour % 12 or 12) if noon else moment.hour
    value = {"m": moment.month, "d": moment.day, "h": hour, "s": moment.second, "e": moment.year, "g": ""}[unit]
    return f"{value:0{min(length, 2)}}" if isinstance(value, int) else value
