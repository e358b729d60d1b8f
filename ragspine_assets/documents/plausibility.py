"""How much a decoded text looks like writing, so that decodings of the same bytes can be compared.

A legacy encoding leaves no mark in the bytes: most of them decode without an error and only one gives text. What tells
them apart is which letters come out, how often, and next to what. The tables below list the letters of each language
from frequent to rare; they are coarse on purpose, because the wrong decodings are far off.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

# Scores are rough logarithms of probabilities per character: 0 would be certain, _FOREIGN is as bad as it gets.
_FREQUENT, _USUAL, _RARE, _FOREIGN = -1.8, -2.8, -4.5, -8.0
_PUNCTUATION = -2.2
_ODD = -6.0
_CAPITAL = 0.7

# Letters of the Latin alphabet a-z from frequent to rare, then the language's further letters: usual ones, rare ones.
_LATIN: Mapping[str, tuple[str, str, str, str, str]] = {
    "en": ("etaoinshrd", "lcumwfgypbv", "kjxqz", "", "éïèöñçê"),
    "it": ("eaionlrtsc", "dupmvghfbqz", "kjwxy", "àèéìòù", "óíúîâ"),
    "fr": ("esaitnrulo", "dcpmvqfbghjxyz", "kw", "éèàêçô", "ùûîïâëœæüÿ"),
    "de": ("enisratdhu", "lcgmobwfkzpv", "jxyq", "äöüß", "éàè"),
    "es": ("eaosrnidlt", "cumpbgvyqhfzj", "xkw", "óíáéñ", "úü"),
    "pt": ("aeosrindmt", "uclpvgqbfhzj", "xkyw", "ãçáéíó", "êõúâôàü"),
    "ca": ("easrtlnoid", "ucmpvbgqfhxyj", "zkw", "àéíóèç", "òúïü·"),
    "nl": ("enatirodsl", "ghvkmubpwjzcf", "xyq", "ëéïè", "öüóáêàç"),
    "da": ("erndtaisgl", "omkvfuphbjyc", "wxzq", "øåæ", "éöäü"),
    "sv": ("eanrtsildo", "mkgvhfupbcjy", "xzwq", "äåö", "éüà"),
    "fi": ("aitneslokum", "vrjhypdgb", "fcwzxq", "äö", "åšž"),
    "is": ("arniestulg", "mkfhvobpdyj", "xczqw", "ðáíþæóö", "úéý"),
    "hu": ("eatlnskorz", "gimydvbhjpufc", "xwq", "áéóöő", "űíúü"),
    "pl": ("aieoznrwsc", "ytkdpmuljgbh", "fvxq", "łęąóżśćń", "ź"),
    "cs": ("eoantvislr", "dkupmzjybhc", "gfxwq", "íáěéžčřšýů", "úďťňó"),
    "sk": ("oaeinvsrtk", "lmdpuzchjby", "gfxwq", "áíéčžýšľť", "úňôĺŕďóä"),
    "sl": ("aeionrstjv", "ldkpmzuhgb", "cfxywq", "čšž", "ćđ"),
    "hr": ("aioenrstju", "vkdplmzgbh", "cfxywq", "čšžćđ", ""),
    "ro": ("eiarntulco", "dspmfvgbzjhx", "kyqw", "ăţşîâțș", "é"),
    "tr": ("aeinrlkdmt", "yusobgzhvcp", "jfqwx", "ışüğçöİ", "âîû"),
    "lt": ("iasoretnuk", "mlpvdgjbyzc", "hfwxq", "ėšųįžąū", "čę"),
    "lv": ("aisterunmk", "odlpvzjgbc", "fhyxwq", "āīēšū", "žļņķģčŗō"),
    "et": ("aeistlunkd", "mohrvgpjb", "fcyxwqz", "äõüö", "šž"),
}

# Other scripts: letters from frequent to rare.
_ORDERED: Mapping[str, str] = {
    "ru": "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё",
    "uk": "оанивіертслкдумпязгьбчйхцїєшюжщфґ",
    "bg": "аиоентрсвлкдпмузгяъбчщжцшхйфюь",
    "sr": "аоиенрстјувкдмлпзгбцчхшћжђљњфџ",
    "el": "αοιετσνηυρπκμλςωδγίάόέήύθχφβώξζψϊϋΐΰ",
    "he": "יוהלארתבשמנםכעדקחפגצטזסןךץףװױײְֱֲֳִֵֶַָֹֻּׁׂ",
    "ar": "اليمنترةبودعسفقحكجهشصىطأخإضذزثغءئؤظآپچگژیکًٌٍَُِّْـ",
    "th": "นรากเงมอลวย่ท้สตดปบคหีัิไแพจชขโุูใึืะผณฟำ์ฉศธ็ซภษญฮถฐฑฒฎฏฌฝฤฆฬฃฅๆ",
}

_HANS = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去"
    "法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正"
    "业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东"
    "声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山"
    "金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉"
    "格望觉术领共确传师观清今切院让识候带导争运孩玩直始"
)
_HANT = (
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去"
    "法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明性知全三又關點正"
    "業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加西斯月話合回特代內信表化老給世位次度門任常先海通教兒原東"
    "聲提立及比員解水名真論處走義各入幾口認條平系氣題活爾更別打女變四神總何電數安少報才結反受目太量再感建務做接必場件計管期市直德資命山"
    "金指克許統區保至隊形社便空決治展馬科司五基眼書非則聽白卻界達光放強即像難且權思王象完設式色路記南品住告類求據程北邊死張該交規萬取拉"
    "格望覺術領共確傳師觀清今切院讓識候帶導爭運孩玩直始"
)
_KANJI = (
    "日一国人年大十二本中長出三時行見月後前生五間上東四今金九入学高円子外八六下来気小七山話女北午百書先名川千水半男西電校語土木聞食車"
    "何南万毎白天母火右読友左休父雨会同事自社発者地業方新場員立開手力問代明動京目通言理体田主題意不作用度強公持野以思家世多正安院心界"
    "教文元重近考画海売知道集別物使品計死特私始朝運終台広住真有口少町料工建空急止送切転研足究楽起着店病質待試族銀早映親験英医仕去味写"
    "字答夜音注帰古歌悪図室洋"
)
_HANGUL = (
    "이다는에의을가고하지도로한사기은어리시나서자해를과아대인정라그있부수들일으전것만장했상제보구성오원었여스문마국공비동모소조면관주말유"
    "경연게할계위중신실바적내학화생음요진세당더분물통간방영까무안되우후용거니행회선업차력등각결재산치트개현않없였때체단론며히식명습러년래"
    "처심저반금합능규량직접난급드교설점령본향따르험"
)

# Marks that writing of any kind has outside ASCII; a few of them only some languages use.
_MARKS = "“”‘’–—…«»°§€£©®™·•¿¡›‹„¸ªº№×±½¼¾²³†‡¶\xa0、。，：；！？「」『』（）《》〈〉【】〔〕・ー々〜～％％　―‥"
_EASTERN_MARKS = "─│┌┐└┘├┤┬┴┼━┃■□●○◎△▲▽▼◇◆☆★※→←↑↓①②③④⑤⑥⑦⑧⑨⑩"
_WIDE_FORMS = (
    "０１２３４５６７８９" + "".join(map(chr, range(0xFF21, 0xFF3B))) + "".join(map(chr, range(0xFF41, 0xFF5B)))
)

_HIRAGANA = "".join(map(chr, range(0x3041, 0x3097)))
_KATAKANA = "".join(map(chr, range(0x30A1, 0x30FB)))


@dataclass(frozen=True)
class _Writing:
    """Scores of the characters one language is written with; what is in neither table is foreign."""

    letters: Mapping[str, float]
    ascii_letters: Mapping[str, float]


def _graded(*grades: tuple[str, float]) -> dict[str, float]:
    scores: dict[str, float] = {}
    for letters, score in grades:
        for letter in letters:
            scores.setdefault(letter, score)
            upper = letter.upper()
            if len(upper) == 1 and upper != letter:
                scores.setdefault(upper, score - _CAPITAL)
    return scores


def _rows(encoding: str, first: int, last: int, trails: Iterable[int]) -> str:
    """The characters of a two-byte set whose lead byte is from ``first`` to ``last``."""
    trail_bytes = list(trails)
    return "".join(
        bytes((lead, trail)).decode(encoding, "ignore") for lead in range(first, last + 1) for trail in trail_bytes
    )


@cache
def _writings() -> list[_Writing]:
    marks = _graded((_MARKS, _PUNCTUATION))
    found = [
        _Writing(
            _graded((usual, _FREQUENT), (rare, _RARE)) | marks,
            _graded((frequent, -2.4), (middle, -3.3), (seldom, -5.5)),
        )
        for frequent, middle, seldom, usual, rare in _LATIN.values()
    ]
    found += [
        _Writing(_graded((letters[:12], _FREQUENT), (letters[12:24], _USUAL), (letters[24:], _RARE)) | marks, {})
        for letters in _ORDERED.values()
    ]
    east = marks | _graded((_WIDE_FORMS + _EASTERN_MARKS, _USUAL))
    high = range(0xA1, 0xFF)
    level_one = {
        "zh-hans": (_HANS, _rows("gb2312", 0xB0, 0xD7, high)),
        "zh-hant": (_HANT, _rows("big5", 0xA4, 0xC6, [*range(0x40, 0x7F), *high])),
        "ko": (_HANGUL, _rows("euc_kr", 0xB0, 0xC8, high)),
    }
    found += [_Writing(_graded((top, _FREQUENT), (rest, _USUAL - 1.2)) | east, {}) for top, rest in level_one.values()]
    kanji = _rows("euc_jp", 0xB0, 0xCF, high)
    found.append(
        _Writing(
            _graded((_HIRAGANA, _FREQUENT), (_KATAKANA, _USUAL), (_KANJI, _USUAL), (kanji, _USUAL - 1.2)) | east, {}
        )
    )
    return found


class _Kinds(dict[int, str]):
    """Kind of each code point, one letter each, worked out when first met; for ``str.translate``."""

    def __missing__(self, code: int) -> str:
        self[code] = kind = _kind(chr(code))
        return kind


_KINDS = _Kinds()
_SCRIPTS = {"LATIN": "l", "CYRILLIC": "c", "GREEK": "c", "HEBREW": "r", "ARABIC": "r", "THAI": "r", "CJK": "H"} | {
    "HANGUL": "H",
    "HIRAGANA": "k",
    "KATAKANA": "k",
}
_INSIDE_WORDS = "‘–—・·。、，：；「」『』（）《》“”…"


def _kind(char: str) -> str:
    """``a`` ASCII letter (``n`` for n), ``l`` other Latin, ``c`` Cyrillic or Greek, capitals in capitals; see below."""
    if char.isascii():
        if char.isalpha():
            small = "n" if char in "nN" else "a"
            return small.upper() if char.isupper() else small
        return "0" if char.isdigit() else " " if char.isspace() else "."
    for chars, kind in ((_INSIDE_WORDS, "-"), ("‚„•†‡ˆ˜‰€", "q"), ("¶§®©±¬¦", "p"), ("’", "y"), ("ªº", "o")):
        if char in chars:
            return kind
    category = unicodedata.category(char)
    if category.startswith("L"):
        kind = _SCRIPTS.get(unicodedata.name(char, "").partition(" ")[0], "x")
        return kind.upper() if category == "Lu" else kind
    return {"M": "m", "N": "0", "Z": " "}.get(category[0], "f" if category == "Cf" else "s")


# What no writing does: a capital behind a small letter, two alphabets in one word, a symbol inside a word or stuck to
# its end, an apostrophe or a sign in front of a small letter, an ordinal mark behind a word, a mark on nothing.
_LETTER = "aAnNlLcCrHkx"
_MISFIT = re.compile(
    rf"""  [an](?=[LC]) | [lc](?=[ANLC])
        | [aAnNlL](?=[cCr]) | [cCr](?=[aAnNlL]) | [lL](?=H)
        | [{_LETTER}](?=[sp][{_LETTER}]) | [{_LETTER}](?=q)
        | (?<![{_LETTER}m])[yp](?=[anlc])
        | (?<![0\ nN])o | o(?=[{_LETTER}])
        | (?<![{_LETTER}m])m
    """,
    re.VERBOSE,
)


def plausibility(text: str) -> float:
    """Return how much the characters of a text outside ASCII look like writing.

    The value is a mean over those characters, about -1.8 for the best and below -6 for the wrong decoding of a text;
    it compares decodings of the same bytes. ASCII letters count a little: they tell languages apart that share
    letters.
    """
    counts = Counter(text)
    outside = {char: count for char, count in counts.items() if char > "\x7f"}
    total = sum(outside.values())
    if not total:
        return 0.0
    ascii_counts = Counter[str]()
    for char, count in counts.items():
        if char < "\x80" and char.isalpha():
            ascii_counts[char] += count
    ascii_total = sum(ascii_counts.values())
    weight = min(2.0, 0.25 * ascii_total / total)
    best = max(
        sum(count * writing.letters.get(char, _FOREIGN) for char, count in outside.items()) / total
        + (
            weight
            * (sum(count * writing.ascii_letters[char] for char, count in ascii_counts.items()) / ascii_total + 2.8)
            if ascii_total and writing.ascii_letters
            else 0.0
        )
        for writing in _writings()
    )
    misfits = len(_MISFIT.findall(text.translate(_KINDS)))
    controls = sum(count for char, count in counts.items() if "\x80" <= char <= "\x9f")
    return best + (_ODD * misfits + _FOREIGN * controls) / total
