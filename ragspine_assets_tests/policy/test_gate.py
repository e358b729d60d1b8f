import importlib.util
import json
import time
import unicodedata
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.policy import SecurityGate

ROOT = Path(__file__).resolve().parents[2]
CASES = Path(__file__).resolve().parents[2] / ".." / "shared" / "cases" / "bug_cases.json"

LATIN = [
    "Globex", "Initech", "Umbrella", "Hooli", "Vandelay Industries", "Wayne Enterprises", "Soylent", "Tyrell",
    "Cyberdyne", "Wonka", "Oscorp", "Massive Dynamic", "Bluth", "Gringotts", "Prestige", "Monarch", "Nakatomi",
    "Zorin", "Octan", "Virtucon",
]  # fmt: skip
CYRILLIC = ["Ромашка", "Вектор", "Северсталь", "Ветерок", "Заря Восток", "Каскад", "Орбита", "Тормоз", "Мотор", "Искра"]
HAN = [
    "竞安保险",
    "中国竞安",
    "竞诚",
    "宏图集团",
    "星海科技",
    "远洋物流",
    "金桥银行",
    "青云证券",
    "天工机械",
    "百川能源",
]
KANA = [
    "ロボテック",
    "サクラソフト",
    "ひまわり工業",
    "ミライガス",
    "アオゾラ",
    "カブトデンキ",
    "テクノバード",
    "ナギサ",
    "パピルス",
    "ホクト",
]
ALIASES = [*LATIN, *CYRILLIC, *HAN, *KANA]
GATE = SecurityGate({alias: f"<{alias}>" for alias in ALIASES}, "Home Group")

TO_CYRILLIC = dict(zip("aeopcxyisjABEHKMOPCTX", "аеорсхуіѕјАВЕНКМОРСТХ", strict=True))
TO_GREEK = dict(zip("aovupABEHIKMNOPTXYZ", "αονυρΑΒΕΗΙΚΜΝΟΡΤΧΥΖ", strict=True))
TO_LATIN = {cyrillic: latin for latin, cyrillic in TO_CYRILLIC.items()}
TO_HAN = {"ロ": "口", "カ": "力", "タ": "夕", "ト": "卜", "ニ": "二", "ハ": "八", "エ": "工"}
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u202a\u2066\u034f\ufe0f"
MARKS = "\u0300\u0301\u0308\u0323\u0336\u0338\u20dd"


def _insert(random: Random, text: str, extra: str, *, times: int) -> str:
    letters = list(text)
    for _ in range(times):
        letters.insert(random.randrange(1, len(letters)), random.choice(extra))
    return "".join(letters)


def _look_alike(random: Random, text: str) -> str:
    table = random.choice([TO_CYRILLIC, TO_GREEK, TO_LATIN, TO_HAN])
    return "".join(table.get(char, char) if random.random() < 0.7 else char for char in text)


def _wide(random: Random, text: str) -> str:
    if text.isascii():
        return "".join(chr(ord(char) + 0xFEE0) if char.isalnum() else char for char in text)
    return unicodedata.normalize(random.choice(["NFD", "NFKD"]), text)


def _mathematical(random: Random, text: str) -> str:
    return "".join(
        chr(0x1D400 + ord(char) - 65)
        if "A" <= char <= "Z"
        else chr(0x1D41A + ord(char) - 97)
        if "a" <= char <= "z"
        else char
        for char in text
    )


DISGUISES = {
    "case": lambda random, text: "".join(random.choice([char.upper(), char.lower()]) for char in text),
    "width": _wide,
    "mathematical": _mathematical,
    "invisible": lambda random, text: _insert(random, text, INVISIBLE, times=3),
    "marks": lambda random, text: _insert(random, text, MARKS, times=3),
    "spaced": lambda random, text: random.choice(" -._").join(text),
    "one separator": lambda random, text: _insert(random, text, " -._\u00a0\u2011\n", times=1),
    "look-alike": _look_alike,
}
AROUND = [
    ("", ""),
    ("We met ", " there."),
    ("(", ")"),
    ("关于", "的报告"),
    ("см. ", ", 2024"),
    ("\n", "\n"),
    ("x, ", "'s offer"),
]


def _disguised(random: Random, alias: str) -> str:
    text = alias
    for name in random.sample(sorted(DISGUISES), k=random.choice([1, 1, 2, 3])):
        text = DISGUISES[name](random, text)
    return f"\u202e{text[::-1]}\u202c" if random.random() < 0.05 else text


def test_10000_disguises_of_50_names_are_all_found():
    random = Random(57)
    assert len(ALIASES) == 50
    missed = []
    for number in range(10_000):
        alias = ALIASES[number % 50]
        before, after = random.choice(AROUND)
        text = before + _disguised(random, alias) + after
        found = GATE.detect(text)
        if found.external_entity is None:
            missed.append((alias, text))
        assert len(found.masked_text) == len(text)
    assert missed == []


def test_a_plain_search_would_miss_most_of_them():
    """Take the guard away: searching lower-cased text finds few of the disguises that the gate finds."""
    random = Random(57)
    texts = [(alias, _disguised(random, alias)) for alias in ALIASES for _ in range(20)]
    assert sum(alias.lower() in text.lower() for alias, text in texts) < len(texts) / 2


ORDINARY = """
In general, the marketing team shall relax. Generally speaking, an ebay seller named Maia bought a lexicon and a metal
shelf; the promo range and the pro range differ, as general managers in general know. Orangery, arrange, strange.
Same as us, they went on for days. Costs were 10 or 101, the code is l0l. Targeted aims; applet, applesauce, pineapple.
A visage in Bayern; e nel 2020, e nei mesi dopo, la maiala, l'ala nord: il meta-linguaggio no. Malaia, relaxed, flex.
The king, a ring, bringing, being: everything. Emerging and aging ages; gem, gecko. Sl0w, 1lex, lng, LNG.
"""


@pytest.mark.parametrize(
    "alias",
    [
        "GE",
        "bay",
        "Bay",
        "Lex",
        "AIA",
        "Orange",
        "ING",
        "Enel",
        "Asus",
        "General Motors",
        "Market",
        "Target",
        "Apple",
        "Visa",
        "Rela",
    ],
)
def test_ordinary_text_names_nobody(alias):
    assert SecurityGate({alias: alias}, "Home").detect(ORDINARY).external_entity is None


def test_the_same_text_with_a_name_in_it_does():
    gate = SecurityGate({alias: alias for alias in ("GE", "Orange", "AIA", "Lex")}, "Home")
    assert gate.detect(ORDINARY + " GE").external_entity == "GE"
    assert gate.detect(ORDINARY.replace("pro range", "the O-range")).external_entity == "Orange"


def test_the_handed_cases_of_kind_screen_hold():
    if not CASES.exists():
        pytest.skip("the handed cases are not here")
    cases = [case for case in json.loads(CASES.read_text("utf-8")) if case["kind"] == "screen"]
    assert cases
    for case in cases:
        gate = SecurityGate({case["input"]["alias"]: "Outsider"}, "Home")
        found = gate.detect(case["input"]["text"]).external_entity
        assert (found is not None) is case["expected"].startswith("hit"), case["id"]


@pytest.mark.parametrize(
    ("text", "folding"),
    [
        ("Globex", "exact"),
        ("gLOBEX", "case"),
        ("Ｇｌｏｂｅｘ", "width"),
        ("Glo\u200dbex", "format"),
        ("Glo\u0301bex", "combining"),
        ("G l o b e x", "spacing"),
        ("Glo-\nbex", "spacing"),
        ("Gl\u043ebex", "confusable"),
        ("GIobex", "confusable"),
        ("G1obex", "confusable"),
        ("Gl0bex", "confusable"),
        ("\u202exebolG\u202c", "bidi"),
    ],
)
def test_a_detection_says_which_folding_it_took(text, folding):
    found = GATE.detect(f"by {text} Ltd")
    assert (found.external_entity, found.folding) == ("<Globex>", folding)


@pytest.mark.parametrize(
    "text",
    [
        "interglobexian",
        "Globexist",
        "xGlobex",
        "глGlobex",
        "Globex2",
        "inter\u200bglobex",
        "alobex",
        "Giobex",
        "Glob",
        "lobex",
    ],
)
def test_a_name_inside_a_longer_word_is_no_hit(text):
    assert GATE.detect(text).external_entity is None


@pytest.mark.parametrize(
    "text",
    ["我们Globex合作", "「Globex」", "Globexは", "Globex는", "my_globex.txt", "(Globex)", "Globex's", "pro-Globex"],
)
def test_a_name_between_signs_or_scripts_without_spaces_is_a_hit(text):
    assert GATE.detect(text).external_entity == "<Globex>"


def test_han_and_kana_names_are_found_inside_a_run():
    assert GATE.detect("据中国竞安公司称").external_entity == "<中国竞安>"
    assert GATE.detect("株式会社ロボテックの製品").external_entity == "<ロボテック>"


def test_the_longer_of_two_names_wins_and_is_masked_whole():
    gate = SecurityGate({"竞安": "short", "中国竞安": "long", "Acme": "a", "Acme Bank": "b"}, "Home")
    assert gate.detect("在中国竞安工作") == type(gate.detect(""))("long", "在    工作", "exact")
    assert gate.detect("Acme-Bank").external_entity == "b"


def test_every_name_is_masked_and_nothing_else():
    text = "Globex, Gl\u200bobex and INITECH; 竞诚 too, not interglobexian."
    masked = GATE.detect(text).masked_text
    assert masked == "      ,         and        ;    too, not interglobexian."
    assert GATE.detect(masked).external_entity is None


@settings(max_examples=300, deadline=None, database=None)
@given(st.text(max_size=60), st.sampled_from(ALIASES), st.text(max_size=60))
def test_what_is_masked_has_the_same_length_and_is_clean(before, alias, after):
    text = f"{before} {alias} {after}"
    found = GATE.detect(text)
    assert found.external_entity is not None
    assert len(found.masked_text) == len(text)
    assert all(masked in {" ", char} for masked, char in zip(found.masked_text, text, strict=True))


def test_a_question_about_an_outsider_is_refused_with_what_may_be_asked():
    verdict = GATE.screen(raw_question="What is the revenue of G l o b e x?", metric="REV")
    assert (verdict.decision, verdict.entity) == ("out_of_scope_entity", "<Globex>")
    assert "<Globex>" in verdict.message
    assert "REV" in verdict.suggestion
    assert "Home Group" in verdict.suggestion


def test_a_question_about_the_home_company_is_allowed():
    verdict = GATE.screen(raw_question="What is the revenue of Home Group?", metric=None)
    assert (verdict.decision, verdict.entity, verdict.message, verdict.suggestion) == ("allow", None, "", "")


def test_a_metric_that_names_an_outsider_is_refused():
    verdict = GATE.screen(raw_question="And that?", metric="share of Globex")
    assert verdict.decision == "out_of_scope_entity"
    assert "share" not in verdict.suggestion


def test_a_gate_without_aliases_allows_everything():
    assert SecurityGate({}, "").detect("Globex").external_entity is None
    assert SecurityGate({}).screen(raw_question="Globex?").decision == "allow"


@pytest.mark.parametrize("alias", ["", " ", "---", "\u200b", "..."])
def test_an_alias_of_nothing_is_refused(alias):
    with pytest.raises(ValueError, match="no letter or digit"):
        SecurityGate({alias: "x"}, "Home")


def test_the_order_of_the_aliases_decides_nothing():
    pairs = [("Globex", "B"), ("GLOBEX", "A"), ("Glo bex", "C")]
    found = {SecurityGate(dict(order), "").detect("globex").external_entity for order in (pairs, pairs[::-1])}
    assert len(found) == 1


@pytest.mark.parametrize("unit", ["a page of ordinary words, ", "G l o b e ", "\u202exebolG ", "竞竞竞安", "Il1|O0 "])
def test_detection_takes_time_in_proportion_to_the_text(unit):
    def seconds(text: str) -> float:
        best = 1e9
        for _ in range(3):
            start = time.process_time()
            GATE.detect(text)
            best = min(best, time.process_time() - start)
        return best

    text = unit * (20_000 // len(unit))
    seconds(text)
    assert seconds(text * 4) < 4 * 2.4 * max(seconds(text), 1e-3)


def _load_kinds():
    """Load the disguises of the benchmark: one list of kinds, measured there and promised here."""
    spec = importlib.util.spec_from_file_location("gate_benchmark", ROOT / "benchmarks" / "gate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCHMARK = _load_kinds()
BENCHMARK_GATE = SecurityGate({name: name for name in {*BENCHMARK.ALL, "Intel"}}, "Home")


def test_of_every_promised_kind_of_disguise_nearly_all_is_caught():
    caught = tried = 0
    for number, (name, kind) in enumerate(BENCHMARK.KINDS.items()):
        random, of_kind, of_tried = Random(number), 0, 0
        for turn in range(10):
            disguised = kind.disguise(random, kind.names[turn % len(kind.names)])
            if disguised and kind.promised:
                of_tried += 1
                of_kind += BENCHMARK_GATE.detect(f"We met {disguised} there.").external_entity is not None
        assert of_kind >= 0.7 * of_tried, name
        caught, tried = caught + of_kind, tried + of_tried
    assert tried > 600
    assert caught >= 0.99 * tried


def _word(letters):
    return st.text(letters, min_size=7, max_size=12).map(str.capitalize)


# One foreign letter at each of its places, so that no word of a language is in the way.
NEVER_WORDS = _word("bdfgkmnprtvz")
INSIDE = [
    *("\u2065", "\ufff5", "\U000e0fff", "\u200b", "\u00ad", "\u202d", "\x01", "\ud800", "\u0301", "\u20dd"),
    *("/", "|", ",", "'", "*", "-", ".", "_", " ", "\u00a0", "-\n", "\u2010\r\n  ", "**", "__", "`", "~~", "\u2122", "\u00b9"),
    *("<b>", "</b>", "<i class='x'>", "<br>", "<!-- a -->", "&shy;", "&#8203;", "&nbsp;", "\\u200b", "%C2%AD", "](x)", "=\n"),
]  # fmt: skip
ALL_OF_IT = [
    str.upper,
    str.lower,
    lambda name: "".join(f"&#{ord(char)};" for char in name),
    lambda name: "".join(f"\\u{ord(char):04x}" for char in name),
    lambda name: "".join(f"%{ord(char):02X}" for char in name),
    lambda name: "".join(chr(0xFEE0 + ord(char)) for char in name),
    lambda name: "".join(chr(0x24D0 + ord(char) - 97) for char in name.lower()),
    lambda name: "".join(chr(0x1F170 + ord(char) - 97) for char in name.lower()),
    lambda name: "".join(chr(0x1F1E6 + ord(char) - 97) for char in name.lower()),
    lambda name: "".join(chr(0x1D5D4 + ord(char) - 65) for char in name.upper()),
    lambda name: name.lower().translate(dict(zip(map(ord, "bdfgkmnprtvz"), "ʙᴅꜰɢᴋᴍɴᴘʀᴛᴠᴢ", strict=True))),
    lambda name: name.upper().translate(dict(zip(map(ord, "BDFGKMNPRTVZ"), "ꓐꓓꓝꓖꓗꓟꓠꓑꓣꓔꓦꓜ", strict=True))),
    lambda name: name.upper().translate(dict(zip(map(ord, "BDGKMPRTVZ"), "ᏴᎠᏀᏦᎷᏢᎡᎢᏙᏃ", strict=True))),
    lambda name: f"my{name}",
    lambda name: f"{name}Holding",
    lambda name: f"{name}{'es' if name.endswith('z') else 's'}",
    lambda name: f"{name}\u2019s",
]
BESIDE = ["", "\u2122", "\u00b9", "\u2460", "\u00ae", "\u00aa", "\u2020", "\u1d40\u1d39", "*", "[1]"]


@settings(max_examples=100, deadline=None, database=None)
@given(st.data(), NEVER_WORDS, st.sampled_from(INSIDE), st.sampled_from(ALL_OF_IT), st.sampled_from(BESIDE))
def test_any_promised_disguise_of_any_name_is_seen(data, name, extra, whole, mark):
    gate = SecurityGate({name: "Rival"}, "Home")
    at = data.draw(st.integers(1, len(name) - 1))
    for disguised in (name[:at] + extra + name[at:] + mark, whole(name) + mark):
        found = gate.detect(f"We met {disguised} there.")
        assert found.external_entity == "Rival", ascii(disguised)
        assert len(found.masked_text) == len(f"We met {disguised} there.")


@settings(max_examples=100, deadline=None, database=None)
@given(st.text(max_size=40))
def test_no_text_is_too_odd_to_be_read(text):
    assert len(GATE.detect(text + "\ud800").masked_text) == len(text) + 1


@pytest.mark.parametrize(
    ("alias", "text"),
    [
        ("Okeandrift", "Ok3andrift"), ("Meta", "M3ta"), ("Asus", "A5us"), ("Okeandrift", "0k34ndr1ft"),
        ("Okeandrift", "Okеаndrіft"), ("Okeandrift", "Оkеандrift"), ("Sony", "the Sonies"), ("IBM", "IBMCloud"),
        ("IBM", "three IBMs"), ("Siemens", "Siemens¹"), ("Meta", "Meta① rose"), ("AT&T", "AT&amp;T"),
        ("カブトデンキ", "かぶとでんき"), ("ひまわり", "ヒマワリは"), ("竞安保险", "競安保險"), ("竞安保险", "競安保険"), ("가나전자", "가나전자는"),
        ("Meta", "we saw Met a there"), ("Globex", "Glob<em>ex</em>"), ("Globex", "Glob&amp;#8203;ex"), ("Globex", "爪 Glo\u2065bex"),
    ],
)  # fmt: skip
def test_a_name_is_seen_in_a_disguise_of_each_kind(alias, text):
    assert SecurityGate({alias: "Rival"}, "Home").detect(text).external_entity == "Rival"


@pytest.mark.parametrize(
    ("alias", "text"),
    [
        ("Asus", "volvió a sus padres"), ("Enel", "en el mar, e nel monte"), ("Visa", "la fenêtre vis-à-vis, vis à vis"),
        ("Meta", "Met à jour la carte; met a man"), ("Uber", "Informationen über das Paket"), ("AIA", "lo scià Ala ad-Din"),
        ("Legrand", "sélectionner le grand modèle"), ("Meta", "the metal, metallic, (metam)"), ("Metal", "Meta!"),
        ("Beta", "hash 6e7a and be7a2c"), ("Globex", "lobex, Glob, globexian"), ("AT&T", "at t, att"), ("GE", "g e, age, GEneral"),
        ("カシオ", "しかしお金がない"), ("Orange", "or, ange"), ("Vandelay Industries", "vandelay, industries"), ("O2", "o 2"),
    ],
)  # fmt: skip
def test_what_anybody_writes_is_no_disguise(alias, text):
    assert SecurityGate({alias: "Rival"}, "Home").detect(text).external_entity is None


def test_without_the_second_look_ordinary_words_would_be_names(monkeypatch):
    """Take the guard away: shapes alone, and letters with anything between them, name many in ordinary text."""
    gate = SecurityGate({alias: alias for alias in ("Enel", "Asus", "Orange", "ING", "AIA")}, "Home")
    text = ORDINARY + "volvió a sus padres, l0l, e nel mare"
    assert gate.detect(text).external_entity is None
    monkeypatch.setattr("ragspine_assets.policy.gate._Words.names", lambda *_: True)
    assert gate.detect(text).external_entity is not None


def test_markup_is_masked_with_the_name_it_is_in():
    found = SecurityGate({"Globex": "Rival"}, "Home").detect("by Glo<b>bex</b> Ltd")
    assert found == type(found)("Rival", "by          " + "</b> Ltd", "markup")
