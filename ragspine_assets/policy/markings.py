"""Printed markings: phrases that label a document where they stand alone (SPEC 1.11).

Alone is a whole line, cell, header, footer, watermark or property, up to punctuation, numbering, page numbers, a date, and
a word that says what follows (``Classification:``). In a sentence the same words mark nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from ragspine_assets.policy.folding import fold_text
from ragspine_assets.policy.lattice import Sensitivity
from ragspine_assets.policy.reading import Squeezed, readings, squeeze

TLP: Mapping[str, Sensitivity] = {
    "TLP:RED": Sensitivity.RESTRICTED,
    "TLP:AMBER+STRICT": Sensitivity.RESTRICTED,
    "TLP:AMBER": Sensitivity.CONFIDENTIAL,
    "TLP:GREEN": Sensitivity.INTERNAL,
    "TLP:CLEAR": Sensitivity.PUBLIC,
    "TLP:WHITE": Sensitivity.PUBLIC,
}
"""The Traffic Light Protocol, version 2.0, and the name that CLEAR had before it."""

_LONGEST_LINE = 300
_FEWEST_LETTERS = 4
_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|"
    "dec(?:ember)?|januar|februar|marz|mai|juni|juli|oktober|dezember|gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|"
    "agosto|settembre|ottobre|novembre|dicembre|janvier|fevrier|mars|avril|juin|juillet|aout|septembre|octobre|decembre|"
    "enero|febrero|abril|mayo|junio|julio|septiembre|octubre|noviembre|diciembre"
)
_PAGE_WORDS = "pages?|pp?|pag|pagina|seite|slides?|folio|sheet|of|di|von|sur|no|nr|version|rev|v"
_SAYS_WHAT_FOLLOWS = (
    "(?:(?:document|data|information|security|protection) )?(?:classification|sensitivity|marking|label|confidentiality|handling)"
    "(?: (?:level|label|class|marking))?|security level|classified|einstufung|klassifizierung|klassifikation|"
    "vertraulichkeit(?:sstufe)?|schutzklasse|classificazione|riservatezza|clasificacion|"
    + "|".join(map(fold_text, ("密级", "密級", "保密级别", "機密区分", "機密性", "取扱区分", "分類")))
)
_OF_DATES_AND_PAGES = "".join(map(fold_text, "年月日第页頁"))
_PAGE = fold_text("ページ")
_BEFORE_A_DATE = "den|vom|am|le|du|il|el|del|on|dated|as of|" + "|".join(
    map(fold_text, ("令和", "平成", "昭和", "民国"))
)
_EDGE = r"(?![^\W_\u3041-\u30ff\u3400-\u9fff])"
_NOISE = (
    rf"[\W_]+|\d+(?:st|nd|rd|th|er|o|a)?{_EDGE}|\d+(?=[{_OF_DATES_AND_PAGES}])|[{_OF_DATES_AND_PAGES}]|{_PAGE}|(?:{_MONTHS}){_EDGE}|"
    rf"(?:{_BEFORE_A_DATE})(?=[\W_]*\d)|(?:{_PAGE_WORDS})(?=[\W_]*\d)|(?:of|di|von|sur|/)(?=[\W_]*\d)|(?:[ivxl]+|[a-z])(?=[.)])"
)
_SINGLE_LETTERS = re.compile(r"[\W_]*(?:\w(?: \w){3,}|[^\W\x00-\x7f](?: [^\W\x00-\x7f])+)[\W_]*")


def _pattern(phrase: str) -> str:
    """Return the source of a regular expression for a folded phrase, spaced and punctuated as one likes."""
    words = re.findall(r"[^\W_]+", fold_text(phrase))
    if sum(map(len, words)) < _FEWEST_LETTERS:
        return re.escape(fold_text(phrase))
    return r"[\W_]*".join(re.escape(word) for word in words)


class Markings:
    """The markings of a policy, ready to be found; TLP 2.0 is always among them.

    Args:
        phrases: level to its phrases.
    """

    def __init__(self, phrases: Sequence[tuple[str, Sequence[str]]]) -> None:
        listed = [(phrase, Sensitivity(level)) for level, entries in phrases for phrase in entries]
        own = {fold_text(phrase) for phrase, _ in listed}
        built_in = [(phrase, level) for phrase, level in TLP.items() if fold_text(phrase) not in own]
        # The longest first: what a phrase begins with may be a phrase as well.
        self._phrases = sorted((*listed, *built_in), key=lambda entry: (-len(squeeze(entry[0])), entry[0]))
        self._squeezed = Squeezed([phrase for phrase, _ in self._phrases])

    @property
    def phrases(self) -> tuple[str, ...]:
        """All phrases, TLP 2.0 among them."""
        return tuple(phrase for phrase, _ in self._phrases)

    def find(self, text: str, *, titled: bool = False) -> list[tuple[str, Sensitivity, int]]:
        """Return the markings that stand alone in a text: phrase, level, and number (from 1) of the line, each once.

        Args:
            text: a text with its marks.
            titled: the text is a title or the subject of a mail, where a marking in brackets or in front stands alone.
        """
        if not self._squeezed.may_hold(text):
            return []
        found: dict[str, tuple[str, Sensitivity, int]] = {}
        # The brackets around a marking in a title say that it is one.
        for view in (text, *readings(text)) if titled else readings(text):
            for number, line in self._candidates(view):
                for phrase, level in self._alone(line, titled=titled):
                    found.setdefault(phrase, (phrase, level, number))
        return sorted(found.values(), key=lambda item: (-item[1].rank, item[2], item[0]))

    def level_of(self, name: str) -> Sensitivity | None:
        """Return the level of a name that is nothing but a marking, None if it is none."""
        return max((level for _, level in self._alone(name)), default=None, key=lambda level: level.rank)

    def _candidates(self, text: str) -> Iterator[tuple[int, str]]:
        """Give lines and cells that may be a marking, and neighbouring ones together, since a phrase may be cut."""
        short: list[tuple[int, str]] = []
        for number, line in enumerate(text.split("\n"), start=1):
            for cell in line.split("\t") if "\t" in line else (line,):
                if cell and len(cell) <= _LONGEST_LINE and not cell.isspace():
                    short.append((number, cell))  # noqa: PERF401
        for number, cell in short:
            if self._squeezed.may_hold(cell):
                yield number, cell
        if self._has_long:
            near = 2
            for (first, left), (second, right) in pairwise(short):
                if second - first <= near and self._squeezed.may_hold(both := f"{left} {right}"):
                    yield first, both

    @cached_property
    def _has_long(self) -> bool:
        return any(len(re.findall(r"[^\W_]+", fold_text(phrase))) > 1 for phrase, _ in self._phrases)

    @cached_property
    def _line(self) -> re.Pattern[str]:
        numbered = "|".join(
            f"(?P<m{index}>{_pattern(phrase)}){_EDGE}" for index, (phrase, _) in enumerate(self._phrases)
        )
        return re.compile(f"(?:{numbered}|{_NOISE})")

    @cached_property
    def _front(self) -> re.Pattern[str]:
        return re.compile(rf"(?:[\W_]|\d)*(?:{_SAYS_WHAT_FOLLOWS})\s*[:=|\-]\s*")

    def _alone(self, line: str, *, titled: bool = False) -> list[tuple[str, Sensitivity]]:
        if len(line) > _LONGEST_LINE:
            return []
        folded = fold_text(line)
        if _SINGLE_LETTERS.fullmatch(folded):
            folded = squeeze(folded)
        if front := self._front.match(folded):
            folded = folded[front.end() :]
        found = self._only_markings(folded)
        if not found and titled:
            for part in re.findall(r"[\[(【（]([^\[\]()【】（）]{1,80})[\])】）]", folded):
                found += self._only_markings(part)
            found += self._in_front(folded)
        return found

    def _only_markings(self, folded: str) -> list[tuple[str, Sensitivity]]:
        """Return the phrases of a folded line that holds nothing but phrases and noise."""
        found: list[tuple[str, Sensitivity]] = []
        at = 0
        while at < len(folded):
            # A word is not entered in its middle.
            match = self._line.match(folded, at)
            if match is None or match.end() == at:
                return []
            if match.lastgroup:
                found.append(self._phrases[int(match.lastgroup[1:])])
            at = match.end()
        return found

    def _in_front(self, folded: str) -> list[tuple[str, Sensitivity]]:
        match = self._line.match(folded.lstrip("[(* "))
        if match is None or not match.lastgroup:
            return []
        rest = folded.lstrip("[(* ")[match.end() :]
        return [self._phrases[int(match.lastgroup[1:])]] if re.match(r"\s*(?:[:|\]]|- )", rest) else []
