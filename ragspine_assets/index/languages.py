"""By which language's rules a document is read: its metadata, else its words, its folder and the corpus (SPEC 4.2).

A language is told by its function words, which every sentence has and no name or term is. Short texts have few of them:
what the other documents of the folder are written in, then what all are, decides where the words do not. A library that
tells languages apart takes seconds to load and a millisecond for each document; this takes some microseconds.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain

from Stemmer import Stemmer

from ragspine_assets.index.tokens import is_unspaced

# Enough to tell a language, and a bound on the time a long document takes.
_SAMPLE_CHARS = 1_000
# What all documents of the folder, or of the corpus, being written in a language is worth in function words of it.
_FOLDER, _CORPUS = 2.0, 1.0
_RAREST = 0.1
# Snowball has one set of rules for both written forms of Norwegian.
_RULES_OF = {"nb": "no", "nn": "no", "iw": "he", "in": "id"}
_WORD = re.compile(r"[^\W\d_]+")

_FUNCTION_WORDS = {
    "ca": "el els les amb per que és són una dels pel com però més aquest aquesta també seva va i no a en al dins ser",
    "cs": "a je se na že v s z do to jsou jako pro by ale není jeho podle které který nebo byl také od při jsem ve po",
    "da": "og er det en at i af til på med som den der ikke et har for blev var fra de kan eller skal ved efter om men",
    "de": "der die das und ist nicht ein eine den dem des zu mit von im für auf als sich auch wird werden sind bei nach "
    "am aus oder hat wie wurde wir ich durch über zum zur es",
    "en": "the of and to in is was for on that with as by are be this it from at an were which or his has have not had "
    "but their they will its what who how when he she you we does did can been",
    "eo": "la kaj estas en al de ne por kun kiu kiel sed oni tio estis ĝi mi li ili ĉu pri per",
    "es": "el los las que en una por con para del es se no su al como más pero sus fue son este está entre cuando ser "
    "qué y de la un lo cuál hay",
    "et": "ja on ei see ka et oli mis kui või ning aga oma siis seda nii tema selle ole kes mida",
    "eu": "eta da ez du bat dira zen izan dute egin baina hau ere duen den beste dela zuen",
    "fi": "ja on ei että se oli hän mutta kun myös ovat tai jos joka ole hänen niin sekä kuin mitä tämä",
    "fr": "le les des et est une dans que qui pour pas sur au aux avec du ce cette sont par plus ne ou être sa son il elle "
    "nous vous été fut quel quelle où la de un en",
    "ga": "agus an na is ar i ag tá bhí le do go sé sin mar nach ó níl chun faoi",
    "hu": "a az és hogy nem is egy volt van ez de meg csak mint vagy már még ki azt lesz el be",
    "id": "yang dan di dengan untuk dari ini itu pada adalah tidak dalam akan oleh ke sebagai juga karena atau ada",
    "it": "il di che la e un una per non con del della è sono le gli dei nel alla i da si come più anche al dalla ha lo "
    "questo delle degli nella quale quando chi cosa fu stato su",
    "lt": "ir yra kad su iš į ne kaip bet buvo tai jo apie nuo per ar už taip po jis",
    "nl": "de het een en van is dat op te in zijn met voor niet aan er ook als door maar bij naar wordt werd om uit dit "
    "wat of worden heeft deze hoe",
    "no": "og er det en på i av til med som den ikke et har for ble var fra de kan eller skal ved etter om men seg å",
    "pl": "i w na się nie jest z do to że o jak ale po jego przez od czy dla są był tego już które oraz lub przy ze",
    "pt": "o os as que em um uma do da dos das não com para por é se na no mais como mas foi ao são pelo pela sua seu "
    "também entre quando qual e de a",
    "ro": "și în de la cu nu este din pe o care un se pentru sunt mai ce a fost prin au sau dar ca după lui",
    "sv": "och är det en att i av till på med som den inte ett har för blev var från de kan eller ska vid efter om men sig",
    "tr": "ve bir bu için ile da de olan olarak çok daha gibi ne en ama kadar sonra var değil o mi olduğu",
}

_TELLING: dict[str, tuple[str, ...]] = {}
for _code, _words in _FUNCTION_WORDS.items():
    for _word in _words.split():
        _TELLING[_word] = (*_TELLING.get(_word, ()), _code)


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What is known of a document before its language is.

    Attributes:
        folder: where it is; documents of one folder tend to be written in one language.
        stated: its language by its metadata, ``''`` if unknown.
        beginning: its first texts, read only as far as needed.
        rank: how closed it is; only documents that are as open, or more, tell about it, so that who may see it is served
            as if there were no others.
    """

    folder: str
    stated: str
    beginning: Iterable[str]
    rank: int = 0


@cache
def stemmer(code: str) -> Stemmer | None:
    """Return the rules of a language, None where there are none."""
    try:
        return Stemmer(code)
    except KeyError:
        return None


def stated_language(stated: str) -> str:
    """Return the code by which a stated language's rules are found: ``en`` for ``en-GB``; ``''`` if none is stated."""
    code = stated.strip().casefold().replace("_", "-").partition("-")[0]
    return _RULES_OF.get(code, code)


def languages_of(documents: Iterable[ReadDocument]) -> list[str]:
    """Return by which language's rules each document is read, ``''`` where there are no such rules.

    What is stated counts. Else it is the language with the most function words, to which come up to three for what the
    other documents of its folder and of the corpus are written in. Texts in scripts that one language's rules are for do
    not need it: their words are told by their letters, see `analysis`.
    """
    stated: list[str] = []
    found: list[Counter[str]] = []
    places: list[tuple[str, int]] = []
    for document in documents:
        code = stated_language(document.stated)
        stated.append(code)
        found.append(Counter() if code else _function_words(document.beginning))
        places.append((document.folder, document.rank))
    own = [code or _most(hits) for code, hits in zip(stated, found, strict=True)]
    ranks = sorted({rank for _, rank in places})
    everywhere: dict[int, Counter[str]] = {rank: Counter() for rank in ranks}
    nearby: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for (folder, own_rank), code in zip(places, own, strict=True):
        for rank in ranks[ranks.index(own_rank) :] if code else ():
            everywhere[rank][code] += 1
            nearby[folder, rank][code] += 1
    languages = []
    for code, hits, place in zip(stated, found, places, strict=True):
        language = code or _most(_with_prior(hits, nearby[place], everywhere[place[1]]))
        languages.append(language if stemmer(language) is not None else "")
    return languages


def _function_words(beginning: Iterable[str]) -> Counter[str]:
    hits: Counter[str] = Counter()
    read, left = 0, _SAMPLE_CHARS
    for text in beginning:
        words = _WORD.findall(text[:left].casefold())
        hits.update(chain.from_iterable(map(_TELLING.__getitem__, filter(_TELLING.__contains__, words))))
        read += sum(len(word) if is_unspaced(word[0]) else 1 for word in words)
        left -= len(text)
        if left <= 0:
            break
    # Every sentence has many of them: where they are rare, they are names in a text of another script.
    return Counter({code: number for code, number in hits.items() if number >= _RAREST * read})


def _most(hits: Counter[str] | dict[str, float]) -> str:
    """Return the language with the most, of equals the first by its code; ``''`` where there is nothing."""
    return max(sorted(hits), key=hits.__getitem__, default="")


def _with_prior(hits: Counter[str], nearby: Counter[str], everywhere: Counter[str]) -> dict[str, float]:
    weighted: dict[str, float] = dict(hits)
    for counts, worth in ((nearby, _FOLDER), (everywhere, _CORPUS)):
        total = sum(counts.values())
        for code, number in counts.items():
            weighted[code] = weighted.get(code, 0.0) + worth * number / total
    return weighted
