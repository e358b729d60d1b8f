"""Bytes become the text they were written as, or a clear refusal (SPEC 1.4)."""

import contextlib
import random
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragspine_assets.documents.decoding import UndecodableText, decode_text
from ragspine_assets.documents.plausibility import plausibility

# Language, encodings it is found in, three sentences.
SENTENCES: list[tuple[str, str, list[str]]] = [
    (
        "it",
        "cp1252 latin-1 iso-8859-15 mac-roman cp850 cp437",
        [
            "La città è più bella al mattino, perché il caffè è già pronto.",
            "Martedì la società ha deciso così: l'attività di Forlì non sarà chiusa, però costerà di più.",
            "Il perché di tanta qualità sta nella curiosità di chi lavorò laggiù per metà della sua età.",
        ],
    ),
    (
        "fr",
        "cp1252 latin-1 iso-8859-15 mac-roman cp850",
        [
            "Le déjeuner était prêt à midi, mais la fenêtre du château était fermée.",
            "Après la fête, nous avons reçu une réponse très différente de la première.",
            "Où êtes-vous allés ? Ça dépend du problème et des élèves.",
        ],
    ),
    (
        "de",
        "cp1252 latin-1 mac-roman cp437 cp850",
        [
            "Die Straße führt über den Fluss, dann müssen wir rechts abbiegen.",
            "Für größere Änderungen wäre ein Gespräch mit der Geschäftsführung nötig.",
            "Im Frühling blühen schöne Bäume, und die Vögel kehren zurück.",
        ],
    ),
    (
        "es",
        "cp1252 latin-1 cp850",
        [
            "El niño comió una manzana mañana por la mañana en España.",
            "¿Cuándo llegará el próximo tren? Según la estación, a las ocho.",
            "La información económica será pública después de la reunión del año.",
        ],
    ),
    (
        "pt",
        "cp1252 latin-1 cp850",
        [
            "A informação não está disponível na região até amanhã.",
            "São João é uma estação de verão; não há preços fixos.",
            "As opções são três: avançar, esperar ou vender à nação vizinha.",
        ],
    ),
    (
        "da",
        "cp1252 latin-1",
        [
            "På søndag går vi en tur langs åen, før børnene får mad.",
            "Året gik, og ingen kunne høre, hvad søen sagde.",
            "Ældre bøger står på øverste hylde.",
        ],
    ),
    (
        "sv",
        "cp1252 latin-1",
        [
            "Vi åker till sjön på lördag och äter räkor på bryggan.",
            "Många människor förstår inte hur svårt det är att välja rätt väg.",
            "Företaget säljer både möbler och kläder.",
        ],
    ),
    (
        "is",
        "cp1252 latin-1",
        [
            "Það er gott að búa á Íslandi þegar sólin skín á fjöllin.",
            "Við förum út í bæ og kaupum þrjár bækur handa börnunum.",
            "Þau sögðu að veðrið yrði betra síðar í dag.",
        ],
    ),
    (
        "pl",
        "cp1250 iso-8859-2",
        [
            "Zażółć gęślą jaźń, powiedział młody człowiek i wyszedł na łąkę.",
            "W przyszłym tygodniu spółka ogłosi wyniki za pierwsze półrocze.",
            "Dzień był długi, więc poszliśmy spać wcześnie.",
        ],
    ),
    (
        "cs",
        "cp1250 iso-8859-2",
        [
            "Příliš žluťoučký kůň běžel přes pole a zmizel v lese.",
            "Společnost oznámila, že příští rok otevře novou továrnu.",
            "Děti si hrály na hřišti až do večera, kdy začalo pršet.",
        ],
    ),
    (
        "hu",
        "cp1250 iso-8859-2",
        [
            "A vállalat jövőre új gyárat nyit, és többen dolgoznak majd ott.",
            "Árvíztűrő tükörfúrógéppel nem lehet főzni, mondta a szakács.",
            "Az időjárás holnap hűvösebb lesz, de eső nem várható.",
        ],
    ),
    (
        "tr",
        "cp1254 iso-8859-9",
        [
            "Şirket gelecek yıl İstanbul'da yeni bir fabrika açacağını söyledi.",
            "Çocuklar bahçede oynarken yağmur başladı ve herkes içeri girdi.",
            "Bugün hava güneşli, ama akşam rüzgâr çıkabilir; ışıkları kapatın.",
        ],
    ),
    (
        "el",
        "cp1253 iso-8859-7",
        [
            "Η εταιρεία ανακοίνωσε ότι θα ανοίξει νέο εργοστάσιο το επόμενο έτος.",
            "Τα παιδιά έπαιζαν στην αυλή μέχρι που άρχισε να βρέχει.",
            "Σήμερα ο καιρός είναι καλός και η θάλασσα ήρεμη.",
        ],
    ),
    (
        "ru",
        "cp1251 koi8-r cp866 iso-8859-5 mac-cyrillic",
        [
            "Компания сообщила, что в следующем году откроет новый завод.",
            "Дети играли во дворе, пока не начался дождь.",
            "Сегодня хорошая погода, и мы поедем на море.",
        ],
    ),
    (
        "uk",
        "cp1251 koi8-u",
        [
            "Компанія повідомила, що наступного року відкриє новий завод.",
            "Діти гралися у дворі, поки не почався дощ; їжак утік.",
            "Сьогодні гарна погода, і ми поїдемо до моря.",
        ],
    ),
    (
        "he",
        "cp1255 iso-8859-8",
        [
            "החברה הודיעה כי בשנה הבאה תפתח מפעל חדש בצפון.",
            "הילדים שיחקו בחצר עד שהתחיל לרדת גשם.",
            "היום מזג האוויר נאה ונסע לים.",
        ],
    ),
    (
        "ar",
        "cp1256 iso-8859-6",
        [
            "أعلنت الشركة أنها ستفتح مصنعا جديدا في العام المقبل.",
            "لعب الأطفال في الفناء حتى بدأ المطر.",
            "الطقس اليوم جميل وسنذهب إلى البحر.",
        ],
    ),
    (
        "th",
        "cp874 tis-620",
        [
            "บริษัทจะเปิดโรงงานใหม่ในปีหน้า",
            "เด็กๆ เล่นอยู่ในสนามจนฝนตก",
            "วันนี้อากาศดี เราจะไปทะเลกัน",
        ],
    ),
    (
        "lt",
        "cp1257 iso-8859-13",
        [
            "Įmonė pranešė, kad kitais metais atidarys naują gamyklą šalia miesto.",
            "Vaikai žaidė kieme, kol pradėjo lyti.",
            "Šiandien geras oras, todėl važiuosime prie jūros.",
        ],
    ),
    (
        "zh",
        "gb18030 gb2312 gbk",
        [
            "公司宣布明年将在北方开设一家新的工厂。",
            "孩子们在院子里玩耍，直到开始下雨。",
            "今天天气很好，我们打算去海边散步，然后吃晚饭。",
        ],
    ),
    (
        "zh-Hant",
        "big5 cp950 big5hkscs",
        [
            "公司宣布明年將在北方開設一家新的工廠。",
            "孩子們在院子裡玩耍，直到開始下雨。",
            "今天天氣很好，我們打算去海邊散步，然後吃晚飯。",
        ],
    ),
    (
        "ja",
        "shift_jis cp932 euc-jp iso2022_jp",
        [
            "会社は来年、北部に新しい工場を開くと発表した。",
            "子供たちは雨が降り始めるまで庭で遊んでいた。",
            "今日は天気がいいので、海へ散歩に行くつもりです。カタカナもある。",
        ],
    ),
    (
        "ko",
        "euc-kr cp949 iso2022_kr",
        [
            "회사는 내년에 북부에 새 공장을 열겠다고 발표했다.",
            "아이들은 비가 내리기 시작할 때까지 마당에서 놀았다.",
            "오늘은 날씨가 좋아서 바다로 산책을 갈 생각이다.",
        ],
    ),
]

CASES = [
    (f"{language}-{encoding}", encoding, sentences)
    for language, encodings, sentences in SENTENCES
    for encoding in encodings.split()
]


@pytest.mark.parametrize(("encoding", "sentences"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_sentences_in_a_legacy_encoding_come_back(encoding: str, sentences: list[str]) -> None:
    def readable(text: str) -> str:
        return text.encode(encoding, "ignore").decode(encoding)

    texts = [*map(readable, sentences), readable("\r\n".join(sentences * 20))]
    assert [decode_text(text.encode(encoding)).text for text in texts] == texts


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"\xef\xbb\xbfabc", "abc", "utf-8"),
        (b"\xff\xfeh\x00\xe9\x00", "hé", "utf-16-le"),
        (b"\xfe\xff\x00h\x00\xe9", "hé", "utf-16-be"),
        (b"\xff\xfe\x00\x00h\x00\x00\x00", "h", "utf-32-le"),
        (b"\x00\x00\xfe\xff\x00\x00\x00h", "h", "utf-32-be"),
        (b"\xff\xfe\x00\x00h\x00", "\x00h", "utf-16-le"),
        (b"\xff\xfe", "", "utf-16-le"),
    ],
)
def test_a_byte_order_mark_decides(data: bytes, text: str, encoding: str) -> None:
    decoded = decode_text(data)
    assert (decoded.text, decoded.encoding, decoded.found_by) == (text, encoding, "bom")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "text", ["A plain line.\nAnother one.", "Emoji \U0001f600 and \U00020bb7 in a plain line of text"]
)
def test_wide_text_without_a_mark_is_known_by_its_nul_bytes(encoding: str, text: str) -> None:
    decoded = decode_text(text.encode(encoding))
    assert (decoded.text, decoded.encoding, decoded.found_by) == (text, encoding, "nul-pattern")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_wide_text_without_a_mark_and_without_ascii_is_known_by_its_characters(encoding: str) -> None:
    text = "公司宣布明年将在北方开设一家新的工厂，孩子们在院子里玩耍。"
    assert decode_text(text.encode(encoding)).text == text


@pytest.mark.parametrize("text", ["of\x00er ends", "ab\x00c", "日本\x00語", "a long line of text with one \x00 in it"])
def test_a_stray_nul_does_not_make_a_text_wide(text: str) -> None:
    decoded = decode_text(text.encode())
    assert (decoded.text, decoded.encoding) == (text, "utf-8")


def test_the_escapes_of_iso_2022_are_found_in_plain_ascii() -> None:
    text = "会社は来年、新しい工場を開く。\nASCII too"
    decoded = decode_text(text.encode("iso2022_jp"))
    assert (decoded.text, decoded.encoding, decoded.found_by) == (text, "iso2022_jp", "iso-2022")


def test_the_gb_2312_part_of_iso_2022_cn_is_decoded() -> None:
    inner = bytes(byte & 0x7F for byte in "公司".encode("gb2312"))
    decoded = decode_text(b"\x1b$)A" + b"one \x0e" + inner + b"\x0f two\n")
    assert (decoded.text, decoded.found_by) == ("one 公司 two\n", "iso-2022")


def test_the_cns_part_of_iso_2022_cn_is_refused_with_its_name() -> None:
    with pytest.raises(UndecodableText, match="ISO-2022-CN"):
        decode_text(b"\x1b$)G\x0e\x44\x21\x0f\n")


def test_escapes_of_a_terminal_are_no_encoding() -> None:
    text = "\x1b[31mred\x1b[0m and plain"
    decoded = decode_text(text.encode())
    assert (decoded.text, decoded.encoding) == (text, "utf-8")


def test_a_short_word_of_the_western_windows_encoding_is_read() -> None:
    decoded = decode_text(b"caf\xe9 \x93q\x94")
    assert (decoded.text, decoded.encoding, decoded.found_by) == ("café “q”", "cp1252", "detected")


@pytest.mark.parametrize(
    "head",
    [
        b'<meta charset="windows-1251">',
        b"<META http-equiv=Content-Type content='text/html; charset=windows-1251'>",
        b'<?xml version="1.0" encoding="windows-1251"?>',
    ],
)
def test_a_declared_encoding_that_fits_is_believed(head: bytes) -> None:
    decoded = decode_text(head + "Дом".encode("cp1251"), markup=True)
    assert (decoded.text[-3:], decoded.encoding, decoded.found_by) == ("Дом", "cp1251", "declared")


def test_a_declaration_counts_in_markup_alone() -> None:
    assert decode_text(b'<meta charset="windows-1251"> ' + "Дом стоит".encode("cp1251")).found_by == "detected"


@pytest.mark.parametrize(
    "name", [b"no-such-charset", b"utf-7", b"rot13", b"base64", b"hex", b"idna", b"utf-8", b"x-user-defined"]
)
def test_a_declaration_that_cannot_be_true_is_passed_over(name: bytes) -> None:
    text = "Сегодня хорошая погода, и мы поедем на море."
    decoded = decode_text(b"<meta charset=" + name + b">" + text.encode("cp1251"), markup=True)
    assert (decoded.text.partition(">")[2], decoded.found_by) == (text, "detected")


def test_a_wrong_declaration_does_not_beat_the_text() -> None:
    text = "公司宣布明年将在北方开设一家新的工厂，孩子们在院子里玩耍。"
    decoded = decode_text(b"<meta charset=iso-8859-1>" + text.encode("gb18030"), markup=True)
    assert decoded.text.endswith(text)


def _euc_tw(count: int, seed: int = 7) -> bytes:
    # Ideographs of CNS 11643 plane 1 begin at 0xC4, the frequent ones in its first rows.
    chosen = random.Random(seed)
    pairs = (bytes((chosen.randint(0xC4, 0xE4), chosen.randint(0xA1, 0xFE))) for _ in range(count))
    return b"\xa1\xa3".join(b"".join(next(pairs) for _ in range(10)) for _ in range(count // 10))


def test_euc_tw_is_refused_with_its_name_and_not_read_as_something_else() -> None:
    with pytest.raises(UndecodableText, match="EUC-TW"):
        decode_text(_euc_tw(200))


@pytest.mark.parametrize("size", [40, 300, 20_000])
def test_random_bytes_are_no_text(size: int) -> None:
    with pytest.raises(UndecodableText):
        decode_text(random.Random(size).randbytes(size))


def test_packed_bytes_are_no_text() -> None:
    with pytest.raises(UndecodableText):
        decode_text(zlib.compress(b"".join(str(number).encode() for number in range(5000))))


def test_control_characters_in_plenty_are_no_text() -> None:
    with pytest.raises(UndecodableText, match="control characters"):
        decode_text(bytes(range(1, 32)) * 4 + b"some words")


def test_a_program_is_no_text_though_it_is_valid_utf_8() -> None:
    with pytest.raises(UndecodableText):
        decode_text(b"\x7fELF\x02\x01\x01" + b"\x00\x03\x00\x3e\x00\x01\x00\x00ab" * 40)


@pytest.mark.parametrize("padding", [b"\x00" * 500, b"\x0c", b"\x08_" * 3])
def test_padding_form_feeds_and_overstriking_are_text(padding: bytes) -> None:
    assert decode_text(b"A line of text.\n" + padding).text.startswith("A line of text.")


def test_utf_8_with_a_damaged_place_is_refused_and_not_read_as_something_else() -> None:
    data = ("Però è già\npiù di così, perché no. " * 5).encode()
    broken = data[:40] + b"\xff" + data[40:]
    with pytest.raises(UndecodableText, match="damaged in 1 place, first in line 2"):
        decode_text(broken)


@pytest.mark.parametrize("data", [b"\xff\xfeab\x00", b"\xef\xbb\xbf\xff\xff"])
def test_a_byte_order_mark_that_lies_is_refused(data: bytes) -> None:
    with pytest.raises(UndecodableText, match="byte order mark"):
        decode_text(data)


@pytest.mark.parametrize("separator", ["\n", " "])
@pytest.mark.parametrize(("encoding", "place"), [("cp1252", 0), ("gb18030", 19), ("euc-jp", 21)])
def test_a_megabyte_is_read_in_seconds_where_anything_quadratic_takes_minutes(
    encoding: str, place: int, separator: str
) -> None:
    sentences = SENTENCES[place][2]
    data = separator.join(sentences * 10_000).encode(encoding)[: 1_000_000 // 2 * 2]
    data = data[: data.rfind(b" " if separator == " " else b"\n")]
    decode_text(data[:1000].rpartition(b" " if separator == " " else b"\n")[0])
    started = time.process_time()
    decoded = decode_text(data)
    assert time.process_time() - started < 10
    assert decoded.text == data.decode(encoding)


def test_a_few_accents_late_in_a_large_file_are_found() -> None:
    data = (
        b"plain words all over. " * 5000 + b"\n" + "città, perché, però\n".encode("cp1252") + b"more words\n" * 20_000
    )
    assert "città, perché, però" in decode_text(data).text


def test_a_byte_the_sample_did_not_hold_still_decides() -> None:
    # 0x81 is no character of cp1252: what fits the sample need not fit the file.
    data = "città perché però\n".encode("cp1252") * 40_000 + b"\x81\n"
    assert decode_text(data).encoding != "cp1252"


def test_right_decodings_are_more_plausible_than_wrong_ones() -> None:
    for language, encodings, sentences in SENTENCES:
        text = " ".join(sentences)
        for encoding in encodings.split()[:1]:
            data = text.encode(encoding, "ignore")
            wrong = max(
                plausibility(data.decode(other))
                for other in ("latin-1", "koi8-r", "mac-roman", "cp437")
                if data.decode(other) != data.decode(encoding)
            )
            assert plausibility(data.decode(encoding)) > wrong, language


def refusal_of(data: bytes, *, markup: bool = False) -> str:
    """The message of the refusal, '' if there is none."""
    try:
        decode_text(data, markup=markup)
    except UndecodableText as refusal:
        return str(refusal)
    return ""


@given(st.binary(max_size=300))
def test_any_bytes_give_a_text_or_a_refusal_that_quotes_nothing(data: bytes) -> None:
    message = refusal_of(data, markup=True)
    assert message.isascii()
    assert "\n" not in message


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe"), max_size=200))
def test_utf_8_comes_back(text: str) -> None:
    decoded = decode_text(text.encode())
    assert (decoded.text, decoded.encoding, decoded.found_by) == (text, "utf-8", "utf-8")


@pytest.mark.parametrize("unit", [b"\0", b"a\0\0\0", b"\0" * 7 + b"a", b"\xff\0\0\0\0\0\0"])
def test_runs_of_nul_take_time_in_proportion_to_their_length(unit: bytes) -> None:
    def seconds(size: int) -> float:
        data = (unit * (size // len(unit)) + b"x")[: size | 1]
        best = 9e9
        for _ in range(3):
            started = time.process_time()
            with contextlib.suppress(UndecodableText):
                decode_text(data)
            best = min(best, time.process_time() - started)
        return best

    seconds(1 << 12)
    assert seconds(1 << 17) < max(0.3, 8 * 3 * seconds(1 << 14))
