"""Collecting asides and carried labels while a file is read (SPEC 1.10, 1.11)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from ragspine_assets.documents.normalise import normalise_text
from ragspine_assets.policy.labelling import Aside, CarriedLabel, FileLabels
from ragspine_assets.policy.reading import squeeze

_MOST_CHARACTERS = 20_000_000
# Short lines are asides also where a text holds the same words in a sentence: alone they may be a marking.
_SHORT = 80
_COMPARED = 200_000_000
_GUID = r"[0-9a-f]{6,10}-?[0-9a-f]{2,6}-?[0-9a-f]{2,6}-?[0-9a-f]{2,6}-?[0-9a-f]{8,14}"
_PURVIEW_NAME = re.compile(
    r"(?:msip|_label)\w*?_\{?(?P<guid>[0-9a-f-]{20,40}|\w{20,40}?)\}?_(?P<field>\w{1,40})$", re.IGNORECASE
)
_ANY_GUID = re.compile(_GUID, re.IGNORECASE)
_PURVIEW_TEXT = re.compile(rf"msip_labels?_\{{?({_GUID})\}}?", re.IGNORECASE)
_OFF = frozenset({"false", "0", "no", "off"})
_ON = frozenset({"true", "1", "yes", "on"})
# Names of properties and of meta tags that hold a label by themselves, letters only. Among them are the ones that
# TITUS and Boldon James write.
_LABEL_NAMES = frozenset(
    (
        *("classification", "sensitivity", "securityclassification", "documentclassification", "documentsensitivity"),
        *(
            "dataclassification",
            "informationclassification",
            "sensitivitylabel",
            "classificationlabel",
            "securitylabel",
        ),
        *("bjdocumentsecuritylabel", "titusclassification", "protectivemarking", "confidentiality", "tlp"),
        *("xclassification", "xsensitivity", "xprotectivemarking", "xtlp", "dcclassification", "classificationlevel"),
        *(
            "securitylevel",
            "documentsecuritylabel",
            "klassifizierung",
            "vertraulichkeit",
            "classificazione",
            "機密区分",
            "密级",
        ),
    )
)
_NO_LABEL = frozenset({"", "none", "normal", "n/a", "unclassified", "no label", "-"})


def holds_label(name: str) -> bool:
    """Tell whether a property or meta tag of a name holds a label (SPEC 1.10)."""
    return squeeze(name.rsplit(":", 1)[-1]) in _LABEL_NAMES


class Gathering:
    """What has been found in one file.

    Args:
        text: the document's text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._asides: dict[tuple[str, str], list[str]] = {}
        self._carried: dict[CarriedLabel, None] = {}
        self._problems: dict[str, None] = {}
        self._seen: set[tuple[str, str]] = set()
        self._size = 0
        self._compared = 0

    def add(self, kind: str, place: str, text: object) -> None:
        """Add one thing that the file says, whether or not its text says it too."""
        text = normalise_text(str(text)).strip()
        if not text or (kind, text) in self._seen:
            return
        self._seen.add((kind, text))
        self._size += len(text)
        if self._size > _MOST_CHARACTERS:
            self.problem("there is more beside its text than is read")
            return
        self._asides.setdefault((kind, place), []).append(text)

    def add_lines(self, kind: str, place: str, lines: Iterable[str]) -> None:
        """Add those of some lines that are no line or cell of the text."""
        for line in lines:
            if line.strip() and not self._is_in_text(line):
                self.add(kind, place, line)

    def problem(self, what: str) -> None:
        """Say that something could not be read which may hold a label."""
        self._problems[what] = None

    def carry(self, source: str, *, guid: str = "", name: str = "", enabled: bool = True) -> None:
        """Add a label that the file carries."""
        name = " ".join(normalise_text(name).split())
        self._carried[CarriedLabel(source, guid.strip("{} ").lower(), name[:500], enabled)] = None

    def carry_named(self, source: str, name: str, value: str) -> None:
        """Add the label that a property or a meta tag holds, if it is one that holds labels."""
        if holds_label(name) and value.strip().casefold() not in _NO_LABEL:
            self.carry(source, name=value)

    def carry_purview(self, source: str, pairs: Iterable[tuple[str, str]], raw: str = "") -> None:
        """Add the labels that Microsoft Purview wrote as pairs of name and value (SPEC 1.10).

        A label is off only where it says so: without a value that can be read it counts as enabled.

        Args:
            source: where they stand.
            pairs: names such as ``MSIP_Label_<guid>_Enabled`` and their values.
            raw: what the pairs were read from: a GUID in it that no pair has is a label too.
        """
        fields: dict[str, dict[str, str]] = {}
        for name, value in pairs:
            match = _PURVIEW_NAME.search(name.strip())
            if match:
                fields.setdefault(match["guid"].strip("{} ").lower(), {})[match["field"].lower()] = value.strip()
        for guid in _PURVIEW_TEXT.findall(raw):
            fields.setdefault(guid.lower(), {})
        for guid, values in fields.items():
            enabled = values.get("enabled", "").casefold() not in _OFF
            self.carry(source, guid=guid, name=values.get("name", ""), enabled=enabled)

    def result(self) -> FileLabels:
        """Return everything that was found."""
        asides = (Aside(kind, place, "\n".join(texts), len(texts)) for (kind, place), texts in self._asides.items())
        return FileLabels(tuple(asides), tuple(self._carried), tuple(self._problems))

    @cached_property
    def _lines(self) -> frozenset[str]:
        lines = self._text.split("\n")
        cells = (cell for line in lines if "|" in line or "\t" in line for cell in re.split(r"(?<!\\)[|\t]", line))
        return frozenset(map(squeeze, (*lines, *cells)))

    @cached_property
    def _squeezed(self) -> str:
        return squeeze(self._text)

    def _is_in_text(self, line: str) -> bool:
        letters = squeeze(line)
        if not letters or letters in self._lines:
            return True
        if len(letters) <= _SHORT or self._compared > _COMPARED:
            return False
        self._compared += len(self._squeezed)
        return letters in self._squeezed


def is_off(value: str | None) -> bool:
    """Tell whether an attribute says no in so many words."""
    return (value or "").strip().casefold() in _OFF


def is_on(value: str | None) -> bool:
    """Tell whether an attribute says yes in so many words."""
    return (value or "").strip().casefold() in _ON


def guid_in(text: str) -> str:
    """Return the first GUID of a text, damaged ones too; '' if there is none."""
    found = _ANY_GUID.search(text)
    return found.group() if found else ""
