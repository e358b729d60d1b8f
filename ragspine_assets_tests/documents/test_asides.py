import csv
import io
import re
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pikepdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.audit.whole_file import statements_of
from ragspine_assets.documents.asides import read_file_labels
from ragspine_assets.documents.source import SourceFile, suffix_of
from ragspine_assets.documents.worker import extract_batch
from ragspine_assets.policy import FileLabels, SensitivityPolicy, explain_sensitivity, load_profile, read_label

CASES = Path("/work/shared/cases/labels")
KNOWN = "2f1c3a54-7a0b-4d1e-9c55-0d2b6f3e8a11"
POLICY = SensitivityPolicy(
    restricted_keywords=["strictly confidential"], labels={KNOWN: "RESTRICTED", "Board only": "RESTRICTED"}
)
PHRASE = "Strictly Confidential"
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
CUSTOM = "http://schemas.openxmlformats.org/officeDocument/2006/custom-properties"


def rows_of_manifest():
    if not CASES.is_dir():
        return []
    return list(csv.DictReader((CASES / "MANIFEST.tsv").read_text().splitlines(), delimiter="\t"))


@pytest.mark.skipif(not CASES.is_dir(), reason="the handed cases are not here")
@pytest.mark.parametrize("case", rows_of_manifest(), ids=lambda case: case["file"])
def test_a_handed_file_has_the_label_it_says(case):
    policy = load_profile(CASES / "profile.toml").sensitivity
    file = SourceFile(case["file"], case["file"], (CASES / case["file"]).stat().st_size, suffix_of(case["file"]))
    (row,) = extract_batch(CASES, [file]).to_pylist()
    verdict = explain_sensitivity(case["file"], row["text"], policy, file=FileLabels.load(row["file_labels"]))
    assert verdict.label == case["label"], verdict


def label(data: bytes, suffix: str, policy: SensitivityPolicy = POLICY) -> str:
    return explain_sensitivity(f"a{suffix}", "", policy, file=read_file_labels(data, suffix)).label


def package(**parts: str | bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)
    return held.getvalue()


def custom(guid: str = KNOWN, enabled: str = "true", name: str = "Board only") -> str:
    fields = {"Enabled": enabled, "Name": name, "Method": "Privileged", "SiteId": "x"}
    properties = "".join(
        f'<property pid="{pid}" name="MSIP_Label_{guid}_{field}"><vt:lpwstr xmlns:vt="v">{value}</vt:lpwstr></property>'
        for pid, (field, value) in enumerate(fields.items(), start=2)
    )
    return f'<?xml version="1.0" encoding="UTF-8"?><Properties xmlns="{CUSTOM}">{properties}</Properties>'


def word(body: str) -> str:
    return f'<w:x xmlns:w="{W}" xmlns:v="urn:schemas-microsoft-com:vml"><w:p>{body}</w:p></w:x>'


RUN = f"<w:r><w:t>{PHRASE}</w:t></w:r>"
SPLIT = "<w:r><w:rPr><w:b/></w:rPr><w:t>Str</w:t></w:r><w:r><w:t>ictly </w:t></w:r><w:r><w:t>Confidential</w:t></w:r>"


@pytest.mark.parametrize("body", [RUN, SPLIT, "<w:r><w:t>Strictly</w:t><w:br/><w:t>Confidential</w:t></w:r>",
                                  "<w:r><w:t>&#83;trictly Confidential</w:t></w:r>", "<w:r><w:t>Ｓｔｒｉｃｔｌｙ　Ｃｏｎｆｉｄｅｎｔｉａｌ</w:t></w:r>",
                                  "<w:r><w:t>Stri\u200bctly Confi\u00addential</w:t></w:r>",
                                  "<w:del><w:r><w:delText>Strictly </w:delText></w:r></w:del><w:r><w:t>Confidential</w:t></w:r>"])  # fmt: skip
@pytest.mark.parametrize("part", ["word/header1.xml", "word/footer2.xml", "word/comments.xml", "word/footnotes.xml",
                                  "word/glossary/document.xml", "word/document.xml", "customXml/item1.xml",
                                  "ppt/slideMasters/slideMaster1.xml", "xl/comments1.xml", "odd/part.xml"])  # fmt: skip
def test_every_part_of_a_package_is_read_however_it_is_spelt(part, body):
    assert label(package(**{part: word(body)}), ".docx") == "RESTRICTED"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("word/header1.xml", f'<h xmlns:v="urn:schemas-microsoft-com:vml"><v:textpath string="{PHRASE}"/></h>'),
        ("word/document.xml", f'<d><docPr name="Picture 1" descr="{PHRASE}"/></d>'),
        ("word/document.xml", f'<w:d xmlns:w="{W}"><w:bookmarkStart w:name="{PHRASE}"/></w:d>'),
        ("xl/workbook.xml", f'<workbook><sheets><sheet name="{PHRASE}" state="hidden"/></sheets></workbook>'),
        ("xl/worksheets/sheet1.xml", f"<worksheet><headerFooter><oddHeader>&amp;L&amp;14{PHRASE}&amp;P</oddHeader></headerFooter></worksheet>"),
        ("xl/worksheets/sheet1.xml", f'<worksheet><sheetData><row hidden="1"><c t="inlineStr"><is><t>{PHRASE}</t></is></c></row></sheetData></worksheet>'),
        ("xl/worksheets/sheet1.xml", f'<worksheet><dataValidations><dataValidation prompt="{PHRASE}"/></dataValidations></worksheet>'),
        ("xl/charts/chart1.xml", f"<c><t>Strictly</t><t> Confidential</t><v>{PHRASE}</v></c>"),
        ("docProps/app.xml", f"<Properties><Company>{PHRASE}</Company></Properties>"),
        ("docProps/custom.xml", f'<Properties><property name="Note"><lpwstr>{PHRASE}</lpwstr></property></Properties>'),
        ("word/_rels/document.xml.rels", f'<R><Relationship TargetMode="External" Target="https://x/{PHRASE}"/></R>'),
        ("word/embeddings/Strictly Confidential.bin", "x"),
        ("OEBPS/content.opf", f"<package><metadata><title>{PHRASE}</title></metadata></package>"),
        ("OEBPS/a.xhtml", f'<html><body><p hidden="">{PHRASE}</p></body></html>'),
    ],
)  # fmt: skip
def test_what_a_package_carries_is_read(name, part):
    assert label(package(**{name: part}), ".xlsx") == "RESTRICTED"


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ('"strictly "&amp;"confidential"', "RESTRICTED"),
        ('"str" &amp; "ictly confidential"', "RESTRICTED"),
        ('CONCATENATE("strictly ","confidential")', "RESTRICTED"),
        ('TEXTJOIN(" ",TRUE,"strictly","confidential")', "RESTRICTED"),
        ('IF(A1,"strictly ","confidential")', "INTERNAL"),
    ],
)
def test_what_a_formula_joins_is_read_where_no_value_was_saved(formula, wanted):
    sheet = f'<worksheet><sheetData><row r="1"><c r="A1"><f>{formula}</f><v></v></c></row></sheetData></worksheet>'
    data = package(**{"xl/worksheets/sheet1.xml": sheet})
    assert label(data, ".xlsx") == wanted
    said = " ".join(statement.text for statement in statements_of(data, ".xlsx"))
    assert ("strictly confidential" in " ".join(said.split())) is (wanted == "RESTRICTED")


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        (custom(), "RESTRICTED"),
        (custom(enabled="True"), "RESTRICTED"),
        (custom(enabled="1"), "RESTRICTED"),
        (custom(enabled=""), "RESTRICTED"),
        (custom(enabled="false"), "INTERNAL"),
        (custom(enabled="FALSE"), "INTERNAL"),
        (custom(guid=KNOWN.upper()), "RESTRICTED"),
        (custom(guid="99999999-0000-4000-8000-123456789abc", name="Other"), "RESTRICTED"),
        (custom()[:-40], "RESTRICTED"),
        ("", "RESTRICTED"),
        (
            '<Properties><property name="Classification"><lpwstr>Board only</lpwstr></property></Properties>',
            "RESTRICTED",
        ),
        (
            '<Properties><property name="bjDocumentSecurityLabel"><lpwstr>Odd</lpwstr></property></Properties>',
            "RESTRICTED",
        ),
        ('<Properties><property name="Colour"><lpwstr>Blue</lpwstr></property></Properties>', "INTERNAL"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><Properties>&b;</Properties>', "RESTRICTED"),
    ],
)
def test_custom_properties_carry_labels(part, wanted):
    assert label(package(**{"docProps/custom.xml": part}), ".docx") == wanted


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        (f'id="{{{KNOWN}}}" enabled="1" removed="0"', "RESTRICTED"),
        (f'id="{{{KNOWN}}}"', "RESTRICTED"),
        (f'id="{{{KNOWN}}}" enabled="0" removed="0"', "INTERNAL"),
        (f'id="{{{KNOWN}}}" enabled="1" removed="1"', "INTERNAL"),
        ('enabled="1"', "RESTRICTED"),
    ],
)
def test_the_list_of_labels_is_read(attributes, wanted):
    part = f'<c:labelList xmlns:c="x"><c:label {attributes}/></c:labelList>'
    assert label(package(**{"docMetadata/LabelInfo.xml": part}), ".docx") == wanted


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_to_a_label_part_never_lowers_a_label(data):
    part = custom().encode()
    kind = data.draw(st.sampled_from(["cut", "drop", "change", "insert"]))
    at = data.draw(st.integers(0, len(part) - 1))
    byte = bytes([data.draw(st.integers(0, 255))])
    damaged = {"cut": part[:at], "drop": part[:at] + part[at + 1 :], "change": part[:at] + byte + part[at + 1 :],
               "insert": part[:at] + byte + part[at:]}[kind]  # fmt: skip
    assert read_label(label(package(**{"docProps/custom.xml": damaged}), ".docx")).value == "RESTRICTED"


def pdf(change) -> bytes:
    held = io.BytesIO()
    with pikepdf.new() as document:
        document.add_blank_page()
        change(document)
        document.save(held)
    return held.getvalue()


def _info(**values):
    def change(document):
        for name, value in values.items():
            document.docinfo[f"/{name}"] = value

    return change


def _annotation(document):
    page = document.pages[0]
    page.Annots = pikepdf.Array(
        [pikepdf.Dictionary(Type=pikepdf.Name.Annot, Subtype=pikepdf.Name.Text, Contents=PHRASE, Rect=[0, 0, 1, 1])]
    )


def _xmp(document):
    field = f"p:MSIP_Label_{KNOWN}_Enabled"
    packet = (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        '<rdf:Description rdf:about="" xmlns:p="http://ns.adobe.com/pdfx/1.3/">'
        f"<{field}>true</{field}></rdf:Description></rdf:RDF></x:xmpmeta>"
    )
    document.Root.Metadata = document.make_stream(packet.encode(), Type=pikepdf.Name.Metadata, Subtype=pikepdf.Name.XML)


def _attachment(document):
    document.attachments[f"{PHRASE}.txt"] = b"x"


def _outline(document):
    with document.open_outline() as outline:
        outline.root.append(pikepdf.OutlineItem(PHRASE, 0))


@pytest.mark.parametrize(
    "change",
    [
        _info(Title=PHRASE), _info(Keywords="a, strictly confidential"), _info(Classification="Board only"), _annotation, _xmp,
        _info(**{f"MSIP_Label_{KNOWN}_Enabled": "true"}), _attachment, _outline,
    ],
)  # fmt: skip
def test_what_a_pdf_carries_is_read(change):
    assert label(pdf(change), ".pdf") == "RESTRICTED"


def test_a_pdf_that_says_nothing_or_whose_label_is_off_says_nothing():
    assert label(pdf(_info(**{f"MSIP_Label_{KNOWN}_Enabled": "false"})), ".pdf") == "INTERNAL"


def mail(**headers: str) -> bytes:
    message = EmailMessage()
    message["Subject"] = headers.pop("Subject", "Crane")
    for name, value in headers.items():
        message[name.replace("_x_", "-")] = value
    message.set_content("The crane is inspected.")
    return message.as_bytes()


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (mail(Subject="Strictly Confidential: merger"), "RESTRICTED"),
        (mail(Subject="=?utf-8?B?U3RyaWN0bHkgQ29uZmlkZW50aWFs?="), "RESTRICTED"),
        (b"Subject: Strictly\r\n Confidential\r\n\r\nbody", "RESTRICTED"),
        (mail(Sensitivity="Board only"), "RESTRICTED"),
        (mail(Sensitivity="Company-Confidential"), "RESTRICTED"),
        (mail(Sensitivity="Normal"), "INTERNAL"),
        (mail(msip_labels=f"MSIP_Label_{KNOWN}_Enabled=True;MSIP_Label_{KNOWN}_Name=Board only;"), "RESTRICTED"),
        (
            f"msip_labels: MSIP_Label_{KNOWN}_Enabled=True;\r\n MSIP_Label_{KNOWN}_SetDate=x;\r\n\r\nbody".encode(),
            "RESTRICTED",
        ),
        (mail(msip_labels=f"MSIP_Label_{KNOWN}_Enabled=False;"), "INTERNAL"),
        (mail(msip_labels="damaged"), "RESTRICTED"),
        (mail(X_x_Classification="Board only"), "RESTRICTED"),
        (mail(Comments=PHRASE), "RESTRICTED"),
        (mail(), "INTERNAL"),
    ],
)
def test_headers_of_mail_are_read(data, wanted):
    assert label(data, ".eml") == wanted


def test_both_parts_of_a_mail_and_the_names_of_its_attachments_are_read():
    message = EmailMessage()
    message.set_content("The crane.")
    message.add_alternative("<p>The crane</p><p style='display:none'>Strictly <b>Conf</b>idential</p>", subtype="html")
    assert label(message.as_bytes(), ".eml") == "RESTRICTED"
    message = EmailMessage()
    message.set_content("The crane.")
    message.add_attachment(b"x", maintype="application", subtype="x", filename="Strictly Confidential.pdf")
    assert label(message.as_bytes(), ".eml") == "RESTRICTED"


@pytest.mark.parametrize(
    "page",
    [
        "<title>Strictly <!-- -->Confidential</title>", '<meta name="description" content="strictly confidential">',
        '<img alt="strictly confidential">', '<p title="strictly confidential">x</p>', "<!-- strictly confidential -->",
        "<p hidden>strictly confidential</p>", "<noscript>strictly confidential</noscript>", "<nav>strictly confidential</nav>",
        "<template>strictly confidential</template>", '<input value="strictly confidential">', "<footer>strictly<br>confidential</footer>",
        '<style>p:before { content: "strictly confidential" }</style>', "<table><tr><td>strictly</td><td>confidential</td></tr></table>",
        '<meta name="classification" content="Board only">', "<p><b>str</b>ictly con<i>fiden</i>tial</p>", "<select><option>strictly confidential</select>",
        "<div>" * 400 + "strictly confidential",
    ],
)  # fmt: skip
def test_what_a_page_hides_is_read(page):
    assert label(f"<html><body><p>The crane.</p>{page}</body></html>".encode(), ".html") == "RESTRICTED"


@pytest.mark.parametrize(
    ("source", "suffix"),
    [
        ("[a](b 'strictly confidential')", ".md"), ("![strictly confidential](b)", ".md"), ('<img alt="strictly confidential">', ".md"),
        ("[a]: http://x 'strictly confidential'", ".md"), (".. strictly confidential", ".rst"), ("a,b\nstrictly confidential,c", ".csv"),
    ],
)  # fmt: skip
def test_what_a_source_does_not_show_is_read(source, suffix):
    assert label(source.encode(), suffix) == "RESTRICTED"


def test_rich_text_is_read_with_its_hidden_groups_and_properties():
    source = r"{\rtf1{\info{\title Strictly Confidential}}{\header x}text}"
    assert label(source.encode(), ".rtf") == "RESTRICTED"
    source = rf"{{\rtf1{{\*\userprops{{\propname MSIP_Label_{KNOWN}_Enabled}}\proptype30{{\staticval true}}}}text}}"
    assert label(source.encode(), ".rtf") == "RESTRICTED"
    assert label(rb"{\rtf1 text}", ".rtf") == "INTERNAL"


def test_entities_are_not_expanded_and_nothing_outside_is_read():
    bomb = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "' + "&b;" * 50 + '"><!ENTITY d "' + "&c;" * 50 + '">]><a>&d;</a>'
    found = read_file_labels(package(**{"word/header1.xml": bomb}), ".docx")
    assert sum(len(aside.text) for aside in found.asides) < 10_000


def test_the_place_of_an_aside_holds_no_words_of_the_document():
    found = read_file_labels(package(**{"word/embeddings/secret plan.xml": "<a>b</a>"}), ".docx")
    assert not any(re.search("secret", aside.place) for aside in found.asides)
