"""What label a document has by itself: by its path, its words, its markings and the labels it carries (SPEC 1.8, 1.10, 1.11).

The order is fixed: a restricted pattern in the path; then what the reading of the whole file holds: keywords, carried
labels, printed markings; then ``escalate_unknown_to_restricted``, then ``default_level``. Everything before the default can
only raise, and of several the highest counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import ahocorasick_rs

from ragspine_assets.policy.folding import fold_text
from ragspine_assets.policy.globs import path_pattern
from ragspine_assets.policy.lattice import Sensitivity, is_known_label, read_label
from ragspine_assets.policy.markings import Markings
from ragspine_assets.policy.reading import Squeezed, is_plain, readings, squeeze, unescaped

_BLOCK = 1 << 20
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
# The space comes first so that the search runs from one space to the next.
_SPACE_INSIDE_UNSPACED = re.compile(f" (?=[{_UNSPACED}])(?<=[{_UNSPACED}] )")


class _Keywords:
    """All keywords of a policy in one automaton, so that the cost of a search does not grow with their number."""

    def __init__(self, keywords: Sequence[str]) -> None:
        folded = [_SPACE_INSIDE_UNSPACED.sub("", fold_text(keyword)) for keyword in keywords]
        self._squeezed = Squeezed(keywords)
        self._letters = [squeeze(keyword) for keyword in keywords]
        self._all = _Automaton(range(len(folded)), folded)
        # A keyword with marks of its own is not looked for where marks are gone: without them it is another word.
        plain = [index for index, keyword in enumerate(keywords) if is_plain(keyword)]
        self._plain = _Automaton(plain, [folded[index] for index in plain]) if plain else None
        # Where words are not separated by spaces, a line break inside a word is no end of it.
        self._unspaced = any(_UNSPACED_LETTER.search(keyword) for keyword in folded)

    def first_in(self, text: str) -> int:
        """Return the number (from 1) of a keyword that a text or one of its readings contains, 0 if none does."""
        if not self._squeezed.may_hold(text):
            return 0
        found = [self._all.first_in(self._folded(view)) for view in {text, unescaped(text)}]
        if self._plain:
            found += [self._plain.first_in(self._folded(view)) for view in readings(text) if view != text]
        found += [self._spread_in(text)]
        return min((number for number in found if number), default=0)

    def _folded(self, text: str) -> str:
        folded = fold_text(text)
        return _SPACE_INSIDE_UNSPACED.sub("", folded) if self._unspaced else folded

    def _spread_in(self, text: str) -> int:
        """Return the number of a keyword that is set with a space between its letters."""
        runs = [squeeze(run.group()) for run in _SPREAD.finditer(text)]
        hits = (
            number
            for number, letters in enumerate(self._letters, start=1)
            if len(letters) >= _FEWEST_SPREAD and any(letters in run for run in runs)
        )
        return next(hits, 0) if runs else 0


_FEWEST_SPREAD = 6
_SPREAD = re.compile(r"(?<![^\W_])\w(?:[ \t\u00a0]{1,4}\w){5,}(?![^\W_])")


class _Automaton:
    def __init__(self, numbers: Iterable[int], folded: Sequence[str]) -> None:
        self._numbers = list(numbers)
        self._automaton = ahocorasick_rs.AhoCorasick(folded)
        self._longest = max(map(len, folded))

    def first_in(self, folded: str) -> int:
        """Return the number (from 1) of a keyword that a folded text contains, 0 if it contains none."""
        # Block by block: the automaton lists every match, and a text may consist of them.
        for start in range(0, len(folded), _BLOCK):
            found = self._automaton.find_matches_as_indexes(folded[start : start + _BLOCK + self._longest])
            if found:
                return self._numbers[min(index for index, _, _ in found)] + 1
        return 0


@dataclass(frozen=True)
class SensitivityPolicy:
    """How documents without a label are labelled (SPEC 1.8, 5.1). Immutable; lists are taken as tuples.

    Attributes:
        default_level: the label of a document about which nothing else says anything.
        escalate_unknown_to_restricted: such a document is RESTRICTED instead.
        restricted_filename_patterns: a document is RESTRICTED if its path contains one of these, folded as text is;
            a pattern with ``*``, ``?`` or ``[`` is a glob that must match the whole path or the whole of any trailing
            part of it (``*`` does not cross a ``/``, ``**`` does).
        restricted_keywords: a document is RESTRICTED if the reading of its whole file contains one of these, folded.
        markings: level to the phrases that give a document this level where they stand alone (SPEC 1.11).
        labels: name or GUID of a label that files carry to its level (SPEC 1.10).

    Raises:
        ValueError: if ``default_level`` or another level is no label of the lattice, or a pattern, keyword, phrase or
            name is blank after folding (it would match everything or nothing).
        TypeError: if a list is given as one string, or an entry is not a string.
    """

    default_level: str = "INTERNAL"
    escalate_unknown_to_restricted: bool = False
    restricted_filename_patterns: tuple[str, ...] | list[str] = ()
    restricted_keywords: tuple[str, ...] | list[str] = ()
    markings: Mapping[str, Sequence[str]] | tuple[tuple[str, tuple[str, ...]], ...] = ()
    labels: Mapping[str, str] | tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Check the values; see the class."""
        if not is_known_label(self.default_level):
            allowed = ", ".join(label.value for label in Sensitivity)
            message = f"default_level {self.default_level!r} is no sensitivity label; use one of {allowed}"
            raise ValueError(message)
        object.__setattr__(self, "default_level", read_label(self.default_level).value)
        if not isinstance(self.escalate_unknown_to_restricted, bool):
            message = "escalate_unknown_to_restricted must be true or false"
            raise TypeError(message)
        for name in ("restricted_filename_patterns", "restricted_keywords"):
            object.__setattr__(self, name, _strings(name, getattr(self, name)))
        markings = dict(self.markings).items()
        labels = dict(self.labels).items()
        by_level = tuple(
            (_level("markings", level), _strings(f"markings.{level}", entries)) for level, entries in markings
        )
        object.__setattr__(self, "markings", by_level)
        names = _strings("labels", [name for name, _ in labels])
        levels = [_level(f"labels.{name}", level) for name, level in labels]
        object.__setattr__(self, "labels", tuple(zip(names, levels, strict=True)))

    def digest(self) -> str:
        """Return a hash of the policy, equal for equal policies on any machine; part of a document's fingerprint."""
        values = [
            self.default_level,
            self.escalate_unknown_to_restricted,
            list(self.restricted_filename_patterns),
            list(self.restricted_keywords),
            list(self.markings),
            list(self.labels),
            _RULES,
        ]
        return hashlib.sha256(json.dumps(values, ensure_ascii=True).encode()).hexdigest()

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(path_pattern(fold_text(pattern)) for pattern in self.restricted_filename_patterns)

    @cached_property
    def _keywords(self) -> _Keywords | None:
        return _Keywords(self.restricted_keywords) if self.restricted_keywords else None

    def pattern_in(self, path: str) -> str | None:
        """Return the first restricted pattern that a path matches, None if it matches none."""
        folded = fold_text(path)
        pairs = zip(self.restricted_filename_patterns, self._patterns, strict=True)
        return next((pattern for pattern, compiled in pairs if compiled.search(folded)), None)

    def keyword_in(self, text: str) -> int:
        """Return the number (from 1) of a restricted keyword that a text, read in any way, contains; 0 if none is there."""
        return self._keywords.first_in(text) if self._keywords else 0

    @cached_property
    def printed(self) -> Markings:
        """The markings of this policy, TLP 2.0 among them."""
        return Markings(tuple((level, tuple(phrases)) for level, phrases in dict(self.markings).items()))

    @cached_property
    def _phrases(self) -> Squeezed:
        return Squeezed([*self.restricted_keywords, *self.printed.phrases])

    def may_find_in(self, text: str) -> bool:
        """Tell whether a text may hold a keyword or a marking, in one search; never wrong when it says no."""
        return self._phrases.may_hold(text)

    @cached_property
    def _levels(self) -> Mapping[str, Sensitivity]:
        return {_name_key(name): Sensitivity(level) for name, level in dict(self.labels).items()}

    def level_of(self, carried: CarriedLabel) -> Sensitivity | None:
        """Return the level that the tables give a carried label, the highest of its GUID and its name; None if none does."""
        named = [self._levels.get(_name_key(name)) for name in (carried.guid, carried.name) if name]
        known = [level for level in named if level is not None]
        if not known and carried.name:
            marking = self.printed.level_of(carried.name)
            known = [marking] if marking is not None else []
            # The value of a property may be a level itself; the name of a tenant's label is that tenant's word.
            if not known and not carried.guid and is_known_label(carried.name):
                known = [read_label(carried.name)]
        return max(known, key=lambda level: level.rank, default=None)

    def __getstate__(self) -> dict[str, object]:
        """Leave the compiled automata behind: they do not travel between processes and are made again at need."""
        fields = type(self).__dataclass_fields__
        return {name: value for name, value in self.__dict__.items() if name in fields}


@dataclass(frozen=True, slots=True)
class Aside:
    """Something that a reader of a file sees, or the file carries, beside its text (SPEC 1.11).

    Attributes:
        kind: what it is, in our words: ``header``, ``comment``, ``property``, ``hidden text``, ...
        place: where it is, in our words and the format's: a part's name, ``page 3``; never words of the document.
        text: what it says, one line or more for each thing.
        things: how many things of this kind stand there.
    """

    kind: str
    place: str = ""
    text: str = field(default="", repr=False)
    things: int = 1

    @property
    def where(self) -> str:
        """Kind and place, for a reason."""
        return f"{self.kind} ({self.place})" if self.place else self.kind


@dataclass(frozen=True, slots=True)
class CarriedLabel:
    """A label that a file carries (SPEC 1.10).

    Attributes:
        source: where in the file, in our words.
        guid: the label's GUID, lower case without braces; '' where it has none.
        name: its name; '' where it has none.
        enabled: whether it is in force; a label that is switched off or removed says nothing.
    """

    source: str
    guid: str = ""
    name: str = field(default="", repr=False)
    enabled: bool = True

    @property
    def shown(self) -> str:
        """The GUID, else the name, else what can be said of it; a sentence in place of a name is not shown."""
        if self.guid:
            return self.guid
        name = " ".join(self.name.split())
        if len(name) <= _LONGEST_SHOWN and len(name.split()) <= _MOST_WORDS_SHOWN and name.isprintable():
            return repr(name)
        return f"of {len(name)} characters"


_LONGEST_SHOWN = 40
_MOST_WORDS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class FileLabels:
    """What a file's bytes say for its label beside its text: the rest of its reading (SPEC 1.10, 1.11).

    Attributes:
        asides: everything beside the text.
        carried: the labels it carries.
        problems: parts that could not be read and may hold a label: such a file is RESTRICTED. In our words.
    """

    asides: tuple[Aside, ...] = ()
    carried: tuple[CarriedLabel, ...] = ()
    problems: tuple[str, ...] = ()

    def dump(self) -> str:
        """Return it as JSON, ASCII only, for a column; '' if it says nothing."""
        if self == FileLabels():
            return ""
        values = {
            "asides": [[aside.kind, aside.place, aside.text, aside.things] for aside in self.asides],
            "carried": [[label.source, label.guid, label.name, label.enabled] for label in self.carried],
            "problems": list(self.problems),
        }
        return json.dumps(values, ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def load(cls, dumped: str) -> FileLabels:
        """Return again what `dump` gave."""
        if not dumped:
            return cls()
        values = json.loads(dumped)
        return cls(
            tuple(Aside(*aside) for aside in values["asides"]),
            tuple(CarriedLabel(*label) for label in values["carried"]),
            tuple(values["problems"]),
        )

    def counts(self) -> dict[str, int]:
        """Return how many asides of each kind were read for the label only."""
        counted: dict[str, int] = {}
        for aside in self.asides:
            counted[aside.kind] = counted.get(aside.kind, 0) + aside.things
        return counted


_NO_FILE_LABELS = FileLabels()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that speaks for a label.

    Attributes:
        rule: ``pattern``, ``keyword``, ``marking``, ``carried label``, ``unreadable label``, or a carried label that is
            not in force and speaks for nothing.
        what: which one: the pattern, the number of the keyword, the phrase, the label's GUID or name.
        where: kind and place.
        level: the level it asks for.
    """

    rule: str
    what: str
    where: str
    level: str


@dataclass(frozen=True, slots=True)
class LabelVerdict:
    """A label and why it is so; the reason names a rule of the policy and never text of the document.

    Attributes:
        label: the label.
        reason: what decided it, where it was found.
        findings: everything that spoke for a label, whether or not it decided.
        problems: what somebody should look at, each with what to do.
    """

    label: str
    reason: str
    findings: tuple[Finding, ...] = ()
    problems: tuple[str, ...] = ()

    def dump(self) -> str:
        """Return findings and problems as JSON for a column; '' if there are none."""
        if not self.findings and not self.problems:
            return ""
        return json.dumps(
            [[list(asdict(each).values()) for each in self.findings], list(self.problems)], ensure_ascii=True
        )

    @classmethod
    def load(cls, label: str, reason: str, dumped: str) -> LabelVerdict:
        """Return a verdict again from its columns."""
        findings, problems = json.loads(dumped) if dumped else ((), ())
        return cls(label, reason, tuple(Finding(*each) for each in findings), tuple(problems))


def _level(where: str, level: object) -> str:
    if not is_known_label(level):
        allowed = ", ".join(label.value for label in Sensitivity)
        message = f"{where}: {level!r} is no sensitivity label; use one of {allowed}"
        raise ValueError(message)
    return read_label(level).value


def _name_key(name: str) -> str:
    """Return what two spellings of a label's name, or of its GUID, have in common."""
    return fold_text(name).strip("{}\"' ")


def _strings(name: str, values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        message = f"{name} must be a list of strings"
        raise TypeError(message)
    for number, value in enumerate(values, start=1):
        if not fold_text(value):
            message = f"{name}: entry {number} is blank"
            raise ValueError(message)
    return tuple(values)


# Part of the policy's digest: a change of the rules makes every document be judged again.
_RULES = "labelling 2"
_NOT_IN_FORCE = "carried label that is not in force"
# Kinds of asides in which a space cannot stand or is often written as another sign.
_NAMES = frozenset({"attachment", "embedded file", "defined name", "bookmark", "name of an object", "name of a sheet"})
_PATH_SEPARATORS = re.compile(r"[/\\._+\-]+|%20")


def explain_sensitivity(
    filename: str, text: str, policy: SensitivityPolicy, *, file: FileLabels = _NO_FILE_LABELS
) -> LabelVerdict:
    """Return the label that the policy gives a document, and why (SPEC 1.8, 1.10, 1.11).

    Args:
        filename: the document's whole path relative to the source root, with ``/``.
        text: the document's text.
        policy: the rules.
        file: what the file's bytes say beside the text.
    """
    findings, problems = [], []
    pattern = policy.pattern_in(filename)
    if pattern is not None:
        findings.append(Finding("pattern", repr(pattern), "path", Sensitivity.RESTRICTED.value))
    # A text holds what it says, whatever else does; then the smallest pieces, so that a reason names the place.
    pieces = [Aside("text", "", text), *(aside for aside in file.asides if aside.text)]
    pieces += [replace(name, text=_PATH_SEPARATORS.sub(" ", name.text)) for name in pieces if name.kind in _NAMES]
    pieces = [piece for piece in pieces if policy.may_find_in(piece.text)]
    paths = [Aside("path", "", filename), Aside("path", "", _PATH_SEPARATORS.sub(" ", filename))]
    findings += _keyword_findings([*pieces, *paths], policy)
    for label in file.carried:
        if label.enabled:
            findings.append(_carried_finding(label, policy, problems))
        else:
            findings.append(Finding(_NOT_IN_FORCE, label.shown, label.source, Sensitivity.PUBLIC.value))
    findings += _marking_findings(pieces, policy)
    for problem in file.problems:
        findings.append(Finding("unreadable label", "", problem, Sensitivity.RESTRICTED.value))
        problems.append(
            f"{problem}, so the document is RESTRICTED; save the file again, or give it a row in metadata.csv"
        )
    return _verdict(findings, problems, policy)


def explain_words(texts: Sequence[tuple[str, str]], policy: SensitivityPolicy) -> tuple[Finding, ...]:
    """Return what keywords and markings find in short texts, each a kind and its words: values of metadata (SPEC 1.11)."""
    pieces = [Aside(kind, "", text) for kind, text in texts if text]
    return (*_keyword_findings(pieces, policy), *_marking_findings(pieces, policy))


def _verdict(findings: Sequence[Finding], problems: Sequence[str], policy: SensitivityPolicy) -> LabelVerdict:
    said = [(read_label(found.level), reason_of(found)) for found in findings if found.rule != _NOT_IN_FORCE]
    if policy.escalate_unknown_to_restricted:
        said.append((Sensitivity.RESTRICTED, "the policy restricts what has no label"))
    said.append((read_label(policy.default_level), "default level of the policy"))
    # The first of equals: who said it first is the reason.
    label, reason = max(said, key=lambda item: item[0].rank)
    return LabelVerdict(label.value, reason, tuple(findings), tuple(problems))


def reason_of(finding: Finding) -> str:
    """Return a finding as the reason of a label."""
    match finding.rule:
        case "pattern":
            return f"file name pattern {finding.what} of the policy"
        case "keyword":
            place = "" if finding.where == "text" else f", in its {finding.where}"
            return f"keyword {finding.what} of the policy{place}"
        case "marking":
            return f"printed marking {finding.what}, in its {finding.where}"
        case "carried label":
            return f"label {finding.what} that the file carries, in its {finding.where}"
        case _:
            return finding.where


def _keyword_findings(pieces: Sequence[Aside], policy: SensitivityPolicy) -> Iterator[Finding]:
    if not policy.restricted_keywords:
        return
    for piece in pieces:
        if number := policy.keyword_in(piece.text):
            # One is enough: the label cannot rise any more, and the first place is the one to look at.
            yield Finding("keyword", str(number), piece.where, Sensitivity.RESTRICTED.value)
            return


def _marking_findings(pieces: Sequence[Aside], policy: SensitivityPolicy) -> Iterator[Finding]:
    seen: set[str] = set()
    for piece in pieces:
        for phrase, level, _ in policy.printed.find(piece.text, titled=piece.kind in _TITLES):
            if phrase not in seen:
                seen.add(phrase)
                yield Finding("marking", repr(phrase), piece.where, level.value)


_TITLES = frozenset({"title", "subject"})


def _carried_finding(label: CarriedLabel, policy: SensitivityPolicy, problems: list[str]) -> Finding:
    level = policy.level_of(label)
    if level is None:
        problems.append(
            f"the label {label.shown} in its {label.source} is in no table, so the document is RESTRICTED; "
            "add it with its level to [labels] of the profile"
        )
    return Finding("carried label", label.shown, label.source, (level or Sensitivity.RESTRICTED).value)


def classify_sensitivity(filename: str, text: str, policy: SensitivityPolicy) -> str:
    """Return the label that the policy gives a document (SPEC 1.8); see `explain_sensitivity` for the reason."""
    return explain_sensitivity(filename, text, policy).label
