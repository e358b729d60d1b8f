"""The label that a file says it has, derived from its words for the proof of labels (SPEC 1.8, 1.10, 1.11, 6.3).

The rules are those of the writer, written again: keywords anywhere, printed markings where they stand alone, carried labels
by the profile's table. Where the rule leaves room, the proof claims less: a check that blocks must be sure.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape

from ragspine_assets.policy import Sensitivity, SensitivityPolicy, fold_text, is_known_label, read_label

from .letter_search import LetterSearch, squeeze
from .whole_file import DAMAGED, LABEL, VERSION, Statement

_TLP = {
    "TLP:RED": Sensitivity.RESTRICTED,
    "TLP:AMBER+STRICT": Sensitivity.RESTRICTED,
    "TLP:AMBER": Sensitivity.CONFIDENTIAL,
    "TLP:GREEN": Sensitivity.INTERNAL,
}


@dataclass(frozen=True)
class StatedLabel:
    """A label that a file says it has, and why: a kind and a place, never words of the file."""

    level: Sensitivity
    reason: str


@dataclass(frozen=True)
class Phrases:
    """What a profile says about the words of a file.

    Attributes:
        keywords: a file that holds one is RESTRICTED.
        markings: phrase to the label of a file in which it stands alone.
        labels: GUID or name of a carried label to the label that it means.
    """

    keywords: tuple[str, ...] = ()
    markings: Mapping[str, Sensitivity] = field(default_factory=dict)
    labels: Mapping[str, Sensitivity] = field(default_factory=dict)

    @classmethod
    def of(cls, policy: SensitivityPolicy) -> Phrases:
        """Take the phrases out of a policy, as its profile has them."""
        markings = {phrase: read_label(level) for level, phrases in dict(policy.markings).items() for phrase in phrases}
        labels = {name: read_label(level) for name, level in dict(policy.labels).items()}
        return cls(tuple(policy.restricted_keywords), markings, labels)

    def digest(self) -> str:
        """Return a hash of the phrases and of the way in which files are read for them."""
        values = [VERSION, self.keywords, sorted(self.markings.items()), sorted(self.labels.items())]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()

    @cached_property
    def _folded_labels(self) -> dict[str, Sensitivity]:
        return {fold_text(name).strip("{} "): level for name, level in self.labels.items()}

    @cached_property
    def _folded_keywords(self) -> tuple[tuple[str, bool], ...]:
        """Keywords as they are looked for, and whether they hold marks of their own."""
        return tuple((_close(fold_text(word)), bool(_MARK.search(fold_text(word)))) for word in self.keywords)

    @cached_property
    def _alone(self) -> dict[str, Sensitivity]:
        """Letters of each marking to its label."""
        alone: dict[str, Sensitivity] = {}
        for phrase, level in (*_TLP.items(), *self.markings.items()):
            letters = squeeze(phrase)
            if letters:
                alone[letters] = max(alone.get(letters, level), level, key=lambda label: label.rank)
        return alone

    @cached_property
    def _searches(self) -> tuple[LetterSearch, ...]:
        """Short phrases by themselves and with their signs (``M&A``): nearly every text holds their letters."""
        short = {word for word in self.keywords if len(squeeze(word)) <= _SHORT and _SIGN.search(fold_text(word))}
        long = LetterSearch({*self.keywords, *self._alone} - short)
        signs = "".join(sorted(set("".join(_SIGN.findall(fold_text(" ".join(short)))))))
        return (long, LetterSearch(short, signs)) if short else (long,)

    @cached_property
    def _read_as_written(self) -> bool:
        """Whether a phrase may lie across words that are not read: it holds signs of the kind that parts them."""
        return any(_PARTING.search(phrase) for phrase in (*self.keywords, *self.markings))

    def _may_be_in(self, text: str, bare: str, removed: Sequence[str]) -> bool:
        """Tell whether a phrase may be in a text, of which ``bare`` is left where words that are not read are removed."""
        views = [_LINE_NUMBER.sub("\n", "\n".join((bare, *removed)))]
        if self._read_as_written and views != [text]:
            views.append(text)
        return any(search.may_hold(view) for view in views for search in self._searches)

    def stated_by(self, statements: Iterable[Statement]) -> list[StatedLabel]:
        """Return what a file says about its label, each reason once, the highest label first."""
        found: dict[str, StatedLabel] = {}
        for statement in statements:
            for stated in self._stated(statement):
                found.setdefault(stated.reason, stated)
        return sorted(found.values(), key=lambda stated: (-stated.level.rank, stated.reason))

    def _stated(self, statement: Statement) -> Iterator[StatedLabel]:
        place, text, source = statement
        if place == DAMAGED:
            yield StatedLabel(Sensitivity.RESTRICTED, "a part with carried labels that is damaged")
            return
        if place == LABEL:
            guid, _, name = text.partition("\x1f")
            yield self._carried(guid, name)
            # What a label is called may be a keyword as well.
            place, text = "label", name
        # Source may hold words between the letters of a phrase: tags, addresses of links.
        removed: list[str] = []
        bare = _without_words(text, "", removed) if source else text
        if not self._may_be_in(text, bare, removed):
            return
        for number, (keyword, has_marks) in enumerate(self._folded_keywords, start=1):
            if any(keyword in view for view in _readings(text, source, has_marks)):
                yield StatedLabel(Sensitivity.RESTRICTED, f"keyword {number} in: {place}")
        for level in self._markings([text] if bare == text else [text, bare, _without_words(text, " ")]):
            yield StatedLabel(level, f"marking {level.value} in: {place}")

    def _markings(self, views: list[str]) -> set[Sensitivity]:
        """Return the labels of markings that stand alone in a line or a cell."""
        levels: set[Sensitivity] = set()
        for view in views:
            for line in view.replace("|", "\t").split("\n"):
                for cell in {line, *line.split("\t")}:
                    if 2 < len(cell) < _LONGEST_LINE and (level := self._alone.get(squeeze(_without_noise(cell)))):
                        levels.add(level)
        return levels

    def _carried(self, guid: str, name: str) -> StatedLabel:
        """Return what a carried label means: by GUID, else by name, else by the words of lattice, TLP and markings."""
        folded_guid, folded_name = fold_text(guid).strip("{} "), fold_text(name).strip()
        level = self._folded_labels.get(folded_guid) if folded_guid else None
        level = level or self._folded_labels.get(folded_name)
        if level is None and is_known_label(name):
            level = read_label(name)
        letters = squeeze(name)
        level = (
            level or self._alone.get(letters) or (Sensitivity.PUBLIC if letters in {"tlpclear", "tlpwhite"} else None)
        )
        if level is None:
            return StatedLabel(Sensitivity.RESTRICTED, "a carried label that no table knows")
        return StatedLabel(level, f"a carried label: {level.value}")


# -- readings ----------------------------------------------------------------------------------------------------------

_LONGEST_LINE = 200
_SHORT = 3
_SIGN = re.compile(r"[&@%$/!?]")
_PARTING = re.compile(r"[<>\[\]()`]|(?:\d|\b[A-Za-z])[.)]")
_LINE_NUMBER = re.compile(r"\n[ \t>]*(?:[-+*•][ \t]+)?\(?(?:\d{1,4}|[A-Za-z])[.)][ \t]")
_MARK = re.compile(r"[*_`~#>|\[\]\\^={}<]")
_SOFT = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+")
_COMMENT = re.compile("<!--|-->")
_BREAKS = re.compile(
    r"</?(?:p|div|br|td|th|tr|table|li|ul|ol|h[1-6]|body|head|html|title|section|blockquote|pre|hr|dd|dt|option)\b",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,2000}>")
_TARGET = re.compile(r"\]\([^()\n]{0,2000}\)|\]\[[^\[\]\n]{0,200}\]|\[\^[^\]\n]{1,40}\]")
_ROLE = re.compile(r":[a-z][\w.-]{0,40}:(?=`)|\s<[^<>`\n]{1,2000}>(?=`)")
_LINE_MARK = re.compile(r"^[ \t>]*(?:(?:[-+*:•]|\(?\d{1,4}[.)]|\(?[A-Za-z][.)]|#{1,6}|\.\.)[ \t]+)*", re.MULTILINE)
_RULE = re.compile(r"^[-=~^*+|: \t]{3,}$", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_UNDERSCORE = re.compile(r"(?<![^\W_])_+|_+(?![^\W_])")
_INLINE = re.compile(r"[*`~\[\]^{}<>\\]+|={2,}|#+")
_HYPHEN = re.compile("[-\u2010]\n[ \t>]*")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u9fff\uf900-\ufaff"
_SPACE_BETWEEN_UNSPACED = re.compile(f"(?<=[{_UNSPACED}])\\s+(?=[{_UNSPACED}])")


def _close(folded: str) -> str:
    """Take out white space where a script has none between words."""
    return folded if folded.isascii() else _SPACE_BETWEEN_UNSPACED.sub("", folded)


def _without_words(text: str, fill: str, removed: list[str] | None = None) -> str:
    """Return a source text without what has letters and is not read; ``fill`` stands in its place inside a line.

    What is taken off is added to ``removed``.
    """
    removed = removed if removed is not None else []

    def taken_off(found: re.Match[str]) -> str:
        removed.append(found[0])
        return fill

    def tag_taken_off(tag: re.Match[str]) -> str:
        removed.append(tag[0])
        return "\n" if _BREAKS.match(tag[0]) else fill

    if "<!--" in text or "-->" in text:
        text = _COMMENT.sub("\n", text)
    if "`" in text and (":`" in text or ">`" in text):
        text = _ROLE.sub(lambda role: removed.append(role[0]) or "", text)
    if "<" in text:
        text = _TAG.sub(tag_taken_off, text)
    if "](" in text or "][" in text or "[^" in text:
        text = _TARGET.sub(taken_off, text)
    return unescape(text) if "&" in text else text


def _readings(text: str, source: bool, has_marks: bool) -> Iterator[str]:
    """Give the folded readings in which a keyword is looked for."""
    yield _close(fold_text(text))
    if _SOFT.search(text):
        yield _close(fold_text(_SOFT.sub(" ", text)))
    if "-\n" in text or "\u2010\n" in text:
        yield _close(fold_text(_HYPHEN.sub("", text)))
    if not source:
        return
    for fill in ("", " "):
        view = _ESCAPE.sub("", _without_words(text, fill))
        yield _close(fold_text(view))
        if has_marks:
            continue
        view = _LINE_MARK.sub("", _RULE.sub("", view)).replace("|", " ")
        view = _UNDERSCORE.sub(fill, _INLINE.sub(fill, view))
        yield _close(fold_text(_SOFT.sub(fill, view)))


# -- markings ----------------------------------------------------------------------------------------------------------

_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|"
    "dec(?:ember)?"
)
_NOISE = re.compile(
    rf"\b(?:(?:\d{{1,2}}(?:st|nd|rd|th)?\W{{0,2}})?(?:{_MONTH})\b\W{{0,2}}\d{{2,4}}|(?:{_MONTH})\W\d{{1,2}}\b\W{{0,2}}\d{{4}}|"
    r"(?:page|seite|pagina|p)\W{0,2}\d+(?:\W{0,2}(?:of|von|di)\W{0,2}\d+)?)\b|"
    r"\d{1,4}年(?:\d{1,2}月)?(?:\d{1,2}日)?|第\d+[页頁]|\d+",
    re.IGNORECASE,
)
_NUMBERING = re.compile(r"^\W*(?:[ivxl]{1,5}|[a-z])[.)]\s", re.IGNORECASE)


def _without_noise(line: str) -> str:
    """Take punctuation, numbering and a date off a line, as far as they have letters or digits."""
    if not line.isascii():
        line = unicodedata.normalize("NFKC", line)
    return _NUMBERING.sub("", _NOISE.sub(" ", line))
