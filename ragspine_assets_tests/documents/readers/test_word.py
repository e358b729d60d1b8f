"""The text of a Word document is what its reader sees (SPEC 1.12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragspine_assets.documents.extraction import Extracted, extract_bytes
from ragspine_assets.documents.readers.numbering import spell_number

from .packages import CHART, CHART_TEXT, NAMES, pack, relations


def word(body: str, **parts: str) -> Extracted:
    """Read a document of this body; other parts by the kind of their relationship."""
    files = {
        "_rels/.rels": relations(("officeDocument", "word/document.xml")),
        "word/document.xml": f"<w:document {NAMES}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": relations(*((kind, f"{kind}.xml") for kind in parts)),
    }
    for kind, part in parts.items():
        files[f"word/{kind}.xml"] = part
    return extract_bytes(pack(files), ".docx")


def p(inner: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{inner}</w:p>"


def r(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def numbered(levels: str, extra: str = "", overrides: str = "") -> str:
    return (
        f'<w:numbering {NAMES}><w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>{extra}'
        f'<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        f'<w:num w:numId="2"><w:abstractNumId w:val="0"/>{overrides}</w:num></w:numbering>'
    )


def level(place: int, number_format: str, text: str, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{place}"><w:start w:val="1"/><w:numFmt w:val="{number_format}"/>{more}'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
    )


def item(text: str, place: int = 0, number: int = 1) -> str:
    return p(r(text), f'<w:numPr><w:ilvl w:val="{place}"/><w:numId w:val="{number}"/></w:numPr>')


def test_signs_between_words_are_kept() -> None:
    signs = "<w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t><w:br w:type='page'/><w:t>d</w:t></w:r>"
    hyphens = "<w:r><w:t>x</w:t><w:noBreakHyphen/><w:t>y</w:t><w:sym w:font='Symbol' w:char='F061'/></w:r>"
    assert word(p(signs) + p(hyphens)).text == "a\tb\nc\nd\n\nx\u2011y\u03b1\n"


def test_only_what_markdown_would_take_for_a_mark_is_escaped() -> None:
    text = word(p(r("R&amp;D: a &lt; b, C*, my_own_name, 3 * 4 * 5"))).text
    assert text == "R&D: a < b, C*, my_own_name, 3 * 4 * 5\n"
    assert word(p(r("# none"))).text == "\\# none\n"


def test_automatic_numbers_of_all_levels_are_written() -> None:
    levels = level(0, "upperRoman", "Part %1") + level(1, "decimal", "%1.%2", "<w:isLgl/>")
    levels += level(2, "lowerLetter", "(%3)")
    items = item("a") + item("b", 1) + item("c", 2) + item("d", 2) + item("e") + item("f", 1) + item("g", 2)
    assert word(items, numbering=numbered(levels)).text.split("\n\n") == [
        "Part I a", "1.1 b", "(a) c", "(b) d", "Part II e", "2.1 f", "(a) g\n",
    ]  # fmt: skip


def test_a_list_that_starts_anew_counts_from_where_it_says() -> None:
    overrides = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'
    items = item("a") + item("b") + item("c", number=2) + item("d", number=2)
    text = word(items, numbering=numbered(level(0, "decimal", "%1."), overrides=overrides)).text
    assert text.split("\n\n") == ["1. a", "2. b", "7. c", "8. d\n"]


def test_numbers_come_from_styles_too() -> None:
    styles = (
        f'<w:styles {NAMES}><w:style w:type="paragraph" w:styleId="A"><w:name w:val="heading 1"/><w:pPr>'
        '<w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="B"><w:name w:val="mine"/><w:basedOn w:val="A"/></w:style></w:styles>'
    )
    levels = level(0, "chineseCountingThousand", "第%1章", '<w:pStyle w:val="A"/>')
    body = p(r("x"), '<w:pStyle w:val="A"/>') + p(r("y"), '<w:pStyle w:val="B"/>')
    body += p(r("z"), '<w:pStyle w:val="A"/><w:numPr><w:numId w:val="0"/></w:numPr>')
    text = word(body, numbering=numbered(levels), styles=styles).text
    assert text == "# 第一章 x\n\n# 第二章 y\n\n# z\n"


@pytest.mark.parametrize(
    ("number", "number_format", "printed"),
    [
        (28, "lowerLetter", "bb"),
        (1994, "upperRoman", "MCMXCIV"),
        (10, "chineseCountingThousand", "十"),
        (105, "chineseCountingThousand", "一百零五"),
        (20, "japaneseCounting", "二十"),
        (12, "ideographTraditional", "乙"),
        (3, "decimalEnclosedCircle", "③"),
        (22, "ordinal", "22nd"),
        (21, "ordinalText", "Twenty-first"),
        (7, "decimalZero", "07"),
        (40_000, "upperRoman", "40000"),
        (5, "unheardOf", "5"),
    ],
)
def test_numbers_are_spelled_as_their_format_says(number: int, number_format: str, printed: str) -> None:
    assert spell_number(number, number_format) == printed


@given(
    st.integers(1, 32_767),
    st.sampled_from(["chineseCountingThousand", "japaneseCounting", "upperRoman", "cardinalText"]),
)
def test_no_two_numbers_are_spelled_alike(number: int, number_format: str) -> None:
    assert spell_number(number, number_format) != spell_number(number + 1, number_format)


def test_fields_show_their_results_and_boxes_their_state() -> None:
    def mark(kind: str, inner: str = "") -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}">{inner}</w:fldChar></w:r>'

    page = f"{mark('begin')}<w:r><w:instrText>PAGE</w:instrText></w:r>{mark('separate')}{r('7')}{mark('end')}"
    box = "<w:ffData><w:checkBox><w:default w:val='0'/><w:checked/></w:checkBox></w:ffData>"
    checked = f"{mark('begin', box)}<w:r><w:instrText>FORMCHECKBOX</w:instrText></w:r>{mark('end')}"
    control = "<w:sdt><w:sdtPr/><w:sdtContent><w:r><w:t>chosen</w:t></w:r></w:sdtContent></w:sdt>"
    assert word(p(r("page ") + page + r(" ") + checked + r(" ") + control)).text == "page 7 ☒ chosen\n"


def test_a_field_that_never_ends_swallows_nothing() -> None:
    assert word(p('<w:r><w:fldChar w:fldCharType="begin"/></w:r>') + p(r("kept"))).text == "kept\n"


def test_notes_stand_behind_the_paragraph_that_refers_to_them() -> None:
    notes = (
        f'<w:footnotes {NAMES}><w:footnote w:type="separator" w:id="-1"/>'
        f'<w:footnote w:id="1">{p(r("one"))}</w:footnote><w:footnote w:id="2">{p(r("two"))}</w:footnote></w:footnotes>'
    )
    first, second = (f'<w:r><w:footnoteReference w:id="{number}"/></w:r>' for number in (1, 2))
    text = word(p(r("a") + first) + p(r("b") + second), footnotes=notes).text
    assert text == "a[^1]\n\n[^1]: one\n\nb[^2]\n\n[^2]: two\n"


def test_what_is_hidden_deleted_or_remarked_is_left_out_and_counted() -> None:
    body = p(r("seen") + r("HIDDEN", "<w:vanish/>") + r(" too", '<w:vanish w:val="0"/>') + f"<w:del>{r('OUT')}</w:del>")
    comments = f'<w:comments {NAMES}><w:comment w:id="1">{p(r("REMARK"))}</w:comment></w:comments>'
    header = f"<w:hdr {NAMES}>{p(r('HEAD'))}</w:hdr>"
    extracted = word(body, comments=comments, header=header)
    assert extracted.text == "seen too\n"
    assert extracted.left_out == "comments: 1; deleted passages: 1; headers and footers: 1; hidden passages: 1"


def test_cells_keep_their_row_and_column() -> None:
    def tc(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(r(text))}</w:tc>"

    rows = [
        tc("a") + tc("b") + tc("c|d"),
        tc("wide", '<w:gridSpan w:val="2"/>') + tc("e"),
        tc("tall", '<w:vMerge w:val="restart"/>') + tc("f") + tc(""),
        tc("", "<w:vMerge/>") + tc("") + tc("g"),
    ]
    table = "".join(f"<w:tr>{row}</w:tr>" for row in rows)
    assert word(f"<w:tbl>{table}</w:tbl>").text == (
        "| a | b | c\\|d |\n| --- | --- | --- |\n| wide |  | e |\n| tall | f |  |\n|  |  | g |\n"
    )


def test_a_formula_stays_in_its_sentence() -> None:
    def m(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    half = f"<m:f><m:num>{m('a+b')}</m:num><m:den>{m('2')}</m:den></m:f>"
    formula = f"<m:oMath>{m('x=')}{half}<m:sSup><m:e>{m('y')}</m:e><m:sup>{m('2')}</m:sup></m:sSup></m:oMath>"
    assert word(p(r("so ") + formula + r(" holds"))).text == "so x=(a+b)/2y^2 holds\n"


def test_the_titles_and_values_of_a_chart_are_text() -> None:
    chart = '<w:r><w:drawing><c:chart r:id="r1"/></w:drawing></w:r>'
    assert word(p(r("before") + chart), chart=CHART).text == f"before\n\nSales\n\n{CHART_TEXT}\n"


def test_a_reading_stands_in_parentheses_behind_its_base() -> None:
    ruby = "<w:r><w:ruby><w:rt><w:r><w:t>かん</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>漢</w:t></w:r></w:rubyBase></w:ruby></w:r>"
    assert word(p(ruby + r("字"))).text == "漢(かん)字\n"
