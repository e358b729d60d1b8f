"""Is what a model proposed there in the text, and does the text not deny it? (SPEC 5.6)

Deterministic, on folded text. Names are found as whole words, like the profile's own. A denial is looked for in the
sentences that hold both ends, in English, Italian, Chinese and Japanese: a sentence that denies anything is not believed
to state the relation, since what exactly it denies takes more than a list of words to tell.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, cached_property
from itertools import pairwise

from ragspine_assets.graph.mentions import Vocabulary, is_whole
from ragspine_assets.policy import fold_text
from ragspine_assets.policy.reading import readings, unescaped

MAX_NAME_CHARS = 128
"""Longest name of an end, in code points."""

_TYPE = re.compile(r"[a-z0-9_]{1,64}")
_NOT_IN_A_TYPE = re.compile(r"[^a-z0-9]+")
_NO_RELATION = frozenset(
    (
        *("none", "no_relation", "no_relations", "no_relationship", "not_related", "unrelated", "unrelated_to", "no"),
        *("unknown", "null", "nil", "na", "n_a", "nothing", "not_applicable", "nessuna", "nessuna_relazione"),
    )
)
_NO_RELATION_WORDS = ("无关系", "没有关系", "无关", "不相关", "関係なし", "無関係", "なし", "无", "無")
_NEGATED_TYPE = re.compile(
    r"(?:^|_)(?:no|not|never|none|neither|nor|without|lacks?|lacking|den(?:y|ies|ied|ying)|unrelated"
    r"|(?:is|does|did|was|has|are|were)nt|cannot|non|mai|senza|nessun[oa]?|kein(?:e[nrms]?)?|nicht|ohne|sans|pas|jamais"
    r"|sin|nunca|sem|nao|geen|niet)(?:_|$)"
)
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")

_SENTENCE = re.compile(r"[^\n.!?。！？；;]+(?:[.!?。！？；;]+|\n|\Z)")

# What holds a word of denial and denies nothing.
_HARMLESS = (
    r"\bnot (?:only|just|merely|least|to mention)\b",
    r"\bno (?:doubt|later than|less than|fewer than|other than|matter)\b",
    r"\bnone other than\b",
    r"\bno\.? ?\d",
    r"\bnon[- ](?:executive|profit|stop|financial|ferrous|woven|governmental)",
    r"\bnon (?:solo|soltanto|appena|a caso)\b",
    r"\bsenza dubbio\b",
    r"不(?:仅|僅|但|只是|光|锈|銹|動|动|同|断|斷|久|少|可或缺|得不|良|足|料|论|論|管|過|过|定期|含|二)",
    r"(?:未来|未來|未必不|未満|未滿)",
    r"非(?:常|洲|凡|铁|鉄|公開|公开|営利|盈利)",
    r"无(?:论|疑|线|锡|缝|人机|尘)|無(?:論|疑|線|料|錫|縫|人)",
    r"(?:だけ|のみ|ばかり)(?:で|じゃ)?(?:は)?(?:なく|ならず)",
    r"(?:なければ|なくては|ないと)(?:なら|いけ|だめ)(?:ない|ません|なかった)?",
    r"(?:に違いない|に過ぎない|少ない|少なくとも|間もなく|まもなく|なくなり次第)",
)
_DENIAL = (
    r"\b(?:not|never|no|nor|neither|none|nobody|without|cannot|cant|wont|lacks?|lacked)\b",
    r"n't\b",
    r"\b(?:den(?:y|ies|ied|ying)|refus(?:e|es|ed|ing)|fail(?:s|ed)? to|declined|rejected|hardly|untrue|false|unrelated)\b",
    r"\b(?:non|mai|nessun|nessuno|nessuna|nemmeno|neanche|neppure|senza|falso|smentisc[eo]|smentit[oaie])\b",
    r"\bneg(?:a|ano|ato|ata|ava|ando|are)\b",
    r"[不没沒未无無勿]|(?:并|並)?非|否[认認定]|拒[绝絶絕]",
    r"ない|なかった|ません|なく|なし|なき|[わかさたなばまらえけせてねべめれじ]ず|否定|いいえ|ぬ(?:。|$)",
)


@cache
def _harmless() -> re.Pattern[str]:
    return re.compile("|".join(_folded(pattern) for pattern in _HARMLESS))


@cache
def _denial() -> re.Pattern[str]:
    return re.compile("|".join(_folded(pattern) for pattern in _DENIAL))


def _folded(pattern: str) -> str:
    """Fold what a pattern matches as texts are folded; what the pattern is made with stays."""
    return "".join(char if char.isascii() else fold_text(char) for char in pattern)


def denies(sentence: str) -> bool:
    """Tell whether a sentence denies something."""
    folded = fold_text(sentence)
    return _denial().search(_harmless().sub(" ", folded)) is not None


def cleaned_name(name: str) -> tuple[str, str]:
    """Return a name without stray spaces and invisible characters, and why it cannot be one ('' if it can).

    Reasons are `empty_name`, `name_too_long` and `control_characters`.
    """
    name = name.strip()
    if len(name) > MAX_NAME_CHARS:
        return "", "name_too_long"
    if any(char in _DIRECTION or unicodedata.category(char) in _FORBIDDEN_CATEGORIES for char in name):
        return "", "control_characters"
    kept = "".join(char for char in name if char in _JOINERS or unicodedata.category(char) != "Cf")
    kept = unicodedata.normalize("NFC", " ".join(kept.split()))
    if len(kept) > MAX_NAME_CHARS:
        return "", "name_too_long"
    return (kept, "") if fold_text(kept).strip() else ("", "empty_name")


def folded_type(kind: str) -> tuple[str, str]:
    """Return the type of an edge for what a model calls a relation, and why there is none ('' if there is one).

    Accents and case go, whatever is neither letter nor digit becomes an underscore. Reasons are `no_relation`, `negated`
    and `bad_type`.
    """
    bare = unicodedata.normalize("NFKD", kind).casefold().replace("n't", "_not").replace("n’t", "_not")
    bare = "".join(char for char in bare if unicodedata.category(char)[0] != "M")
    folded = _NOT_IN_A_TYPE.sub("_", bare).strip("_")
    if folded in _NO_RELATION or bare.strip() in _NO_RELATION_WORDS:
        return "", "no_relation"
    if not _TYPE.fullmatch(folded):
        return "", "bad_type"
    return ("", "negated") if _NEGATED_TYPE.search(folded) else (folded, "")


class GroundedText:
    """The text of one chunk, asked about names and denials.

    Args:
        text: the text.
        vocabulary: the profile's names: an end that is an entity of ours is there when any of its names is.
    """

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self._text = text
        self._vocabulary = vocabulary
        self._folded = _views(text)
        self._known: dict[str, tuple[int, ...]] = {}
        self._denials: dict[int, bool] = {}

    def holds(self, name: str, code: str = "") -> bool:
        """Tell whether a name stands in the text, or, given a code, any name of that entity."""
        if code and code in self._codes:
            return True
        folded = fold_text(name).strip()
        # A name of ours that stands only inside a longer one of ours is that other one.
        return not (code and self._vocabulary.is_alias(folded)) and any(_occurs(folded, view) for view in self._folded)

    def denied(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Tell whether every closest pair of the two ends, each a name and a code, stands among denials.

        The closest sentences are those that hold both ends; where there is none, the shortest runs of sentences that
        begin with one end and finish with the other.
        """
        return all(
            any(self._denies(number) for number in range(first, last + 1))
            for first, last in self._windows(self._places(*source), self._places(*target))
        )

    @cached_property
    def _codes(self) -> frozenset[str]:
        return frozenset(self._vocabulary.entities_in(self._text))

    @cached_property
    def _sentences(self) -> list[str]:
        return [found.group() for found in _SENTENCE.finditer(self._text)] or [self._text]

    @cached_property
    def _folded_sentences(self) -> list[tuple[str, ...]]:
        return [_views(sentence) for sentence in self._sentences]

    @cached_property
    def _sentence_codes(self) -> list[frozenset[str]]:
        return [frozenset(self._vocabulary.entities_in(sentence)) for sentence in self._sentences]

    def _denies(self, number: int) -> bool:
        if number not in self._denials:
            self._denials[number] = any(map(denies, (sentence := self._sentences[number], *readings(sentence))))
        return self._denials[number]

    def _places(self, name: str, code: str) -> tuple[int, ...]:
        key = code or name
        if key not in self._known:
            folded = fold_text(name).strip()
            self._known[key] = tuple(
                number
                for number, sentence in enumerate(self._folded_sentences)
                if (code and code in self._sentence_codes[number])
                or (
                    not (code and self._vocabulary.is_alias(folded)) and any(_occurs(folded, view) for view in sentence)
                )
            )
        return self._known[key]

    def _windows(self, sources: tuple[int, ...], targets: tuple[int, ...]) -> list[tuple[int, int]]:
        if not sources or not targets:
            # A name that a full stop cuts in two: the whole text has to be free of denials.
            return [(0, len(self._sentences) - 1)]
        both = set(sources) & set(targets)
        if both:
            return [(number, number) for number in sorted(both)]
        merged = sorted([(number, 0) for number in sources] + [(number, 1) for number in targets])
        pairs = [(left, right) for (left, side), (right, other) in pairwise(merged) if side != other]
        closest = min(right - left for left, right in pairs)
        return [pair for pair in pairs if pair[1] - pair[0] == closest]


def _views(text: str) -> tuple[str, ...]:
    """Return a text folded as it may be read: with its marks, which a name may have, and without them."""
    return tuple(dict.fromkeys(fold_text(view) for view in (*readings(text), unescaped(text))))


def _occurs(name: str, text: str) -> bool:
    """Tell whether a folded name stands in a folded text as a word of its own."""
    if not name:
        return False
    at = text.find(name)
    while at >= 0:
        if is_whole(text, name, at, at + len(name)):
            return True
        at = text.find(name, at + 1)
    return False
