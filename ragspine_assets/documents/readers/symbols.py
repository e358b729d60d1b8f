"""Characters of fonts that show other signs than their codes say: Symbol and the commonest of Wingdings (SPEC 1.12)."""

from __future__ import annotations

from collections.abc import Mapping

_SYMBOL_FIRST = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_SYMBOL_SECOND = "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪"
_SYMBOL_THIRD = "⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"

_SYMBOL = {
    **{0x20 + place: char for place, char in enumerate(_SYMBOL_FIRST)},
    **{0xA0 + place: char for place, char in enumerate(_SYMBOL_SECOND)},
    **{0xF1 + place: char for place, char in enumerate(_SYMBOL_THIRD)},
}
_WINGDINGS = {
    0x20: " ", 0x22: "✂", 0x28: "☎", 0x2A: "✉", 0x36: "⌛", 0x3E: "✇", 0x3F: "✍", 0x46: "☞", 0x4A: "☺", 0x4C: "☹",
    0x6C: "●", 0x6D: "❍", 0x6E: "■", 0x6F: "□", 0x70: "□", 0x71: "❑", 0x72: "❒", 0x73: "⬧", 0x74: "⧫", 0x75: "◆",
    0x76: "❖", 0x77: "⬥", 0x78: "☒", 0x7A: "⌘", 0x80: "⓪", **{0x81 + n: chr(0x2460 + n) for n in range(10)},
    0x8B: "⓿", **{0x8C + n: chr(0x2776 + n) for n in range(10)}, 0x9F: "•", 0xA7: "▪", 0xA8: "◻", 0xAB: "★",
    0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xEF: "⇦", 0xF0: "⇨", 0xF1: "⇧", 0xF2: "⇩",
    0xF3: "⬄", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_WINGDINGS_2 = {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0xA3: "□", 0x97: "●", 0x98: "●"}
_WINGDINGS_3 = {0x7D: "▶", 0x7C: "◀", 0x84: "◀", 0x85: "▶"}
_FONTS: Mapping[str, Mapping[int, str]] = {
    "symbol": _SYMBOL,
    "wingdings": _WINGDINGS,
    "wingdings 2": _WINGDINGS_2,
    "wingdings 3": _WINGDINGS_3,
}


def symbol(code: int, font: str) -> str:
    """Return what a font shows for a code; the code's own character where that is not known."""
    known = _FONTS.get(font.strip().lower(), {}).get(code & 0xFF if code < 0x100 or 0xF000 <= code < 0xF100 else -1)
    if known:
        return known
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else ""


def is_symbol_font(font: str) -> bool:
    """Tell whether a font shows other signs than its codes say."""
    return font.strip().lower() in _FONTS


def shown(text: str, font: str) -> str:
    """Return what a font shows for the private codes of a text."""
    if not any("\uf000" <= char <= "\uf0ff" for char in text):
        return text
    return "".join(symbol(ord(char), font) if "\uf000" <= char <= "\uf0ff" else char for char in text)
