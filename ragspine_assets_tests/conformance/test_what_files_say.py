"""No document is below what its file says, whatever the format, the place and the spelling (SPEC 1.8, 1.10, 1.11, 6.3)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.audit.file_labels import audit_file_labels
from ragspine_assets.audit.stated_labels import Phrases
from ragspine_assets.audit.whole_file import statements_of
from ragspine_assets.documents import scan_source
from ragspine_assets.documents.worker import extract_batch
from ragspine_assets.policy import FileLabels, SensitivityPolicy, explain_sensitivity, load_profile, read_label
from ragspine_assets.store import ChunkStore
from ragspine_assets_tests.conformance import label_files
from ragspine_assets_tests.conformance.label_files import KNOWN, POLICY, UNKNOWN, Case
from ragspine_assets_tests.conftest import Pipeline

PHRASES = Phrases.of(POLICY)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return label_files.all_cases()


def stated(data: bytes, suffix: str, phrases: Phrases = PHRASES) -> str:
    """What a file says above INTERNAL; ''  if nothing."""
    found = phrases.stated_by(statements_of(data, suffix))
    return found[0].level.value if found and found[0].level.rank > 1 else ""


def unlabelled(store: ChunkStore, doc_ids: list[str]) -> None:
    """Have the store say of documents what a stage would that reads nothing: INTERNAL."""
    store.init_schema()
    with store.connect() as connection:
        connection.executemany(
            "INSERT INTO document (doc_id, status, sensitivity, label_reason) VALUES (?, 'ingested', 'INTERNAL', 'x')",
            [[doc_id] for doc_id in doc_ids],
        )


def test_the_proof_reads_in_every_file_the_label_that_it_says(cases: list[Case]) -> None:
    assert len({case.name for case in cases}) == len(cases) > 600
    wrong = {case.name: found for case in cases if (found := stated(case.data, case.suffix)) != case.label}
    assert not wrong


@dataclass(frozen=True)
class Written:
    """What the writer makes of every file, and what it would make of it if it read the text alone."""

    root: Path
    named: dict[str, Case]
    whole: dict[str, str]
    text_only: dict[str, str]


@pytest.fixture(scope="module")
def written(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp("said")
    named = {f"{number:03}{case.suffix}": case for number, case in enumerate(cases)}
    for name, case in named.items():
        (root / name).write_bytes(case.data)
    whole, text_only = {}, {}
    for row in extract_batch(root, scan_source(root).files).to_pylist():
        name, text = row["doc_id"], row["text"] or ""
        assert row["status"] == "ingested", (named[name].name, row["reason"])
        whole[name] = explain_sensitivity(name, text, POLICY, file=FileLabels.load(row["file_labels"])).label
        text_only[name] = explain_sensitivity(name, text, POLICY).label
    return Written(root, named, whole, text_only)


def test_the_writer_reads_in_every_file_the_label_that_it_says(written: Written) -> None:
    wrong = {
        case.name: written.whole[n]
        for n, case in written.named.items()
        if written.whole[n] != (case.label or "INTERNAL")
    }
    assert not wrong


def test_a_writer_that_reads_nothing_beside_the_text_is_found_out(written: Written, pipeline: Pipeline) -> None:
    some = {case.name.partition(":")[0]: name for name, case in written.named.items()}.values()
    pipeline.write({name: written.named[name].data for name in some})
    unlabelled(pipeline.store, list(some))

    def audited(labels: dict[str, str]) -> int:
        with pipeline.store.connect() as connection:
            connection.executemany(
                "UPDATE document SET sensitivity = ? WHERE doc_id = ?", [[labels[name], name] for name in some]
            )
        return audit_file_labels(pipeline.store, pipeline.root, POLICY, workers=1).violations

    lost = [name for name in some if written.text_only[name] != written.whole[name]]
    assert audited(written.text_only) == len(lost) > 20
    assert audited(written.whole) == 0


def test_each_file_that_says_a_label_is_found_below_it_where_the_store_says_internal(
    cases: list[Case], pipeline: Pipeline
) -> None:
    # One of each format and place: what they have in common is tried above.
    some = {case.name.partition(":")[0]: case for case in cases}
    names = {f"{number:03}{case.suffix}": case for number, case in enumerate(some.values())}
    pipeline.write({name: case.data for name, case in names.items()})
    unlabelled(pipeline.store, list(names))
    result = audit_file_labels(pipeline.store, pipeline.root, POLICY, workers=0)
    below = [name for name, case in names.items() if case.label]
    assert result.checked == len(names)
    assert result.violations == len(below), result.counts
    assert not result.warnings
    with pipeline.store.connect() as connection:
        for label in ("CONFIDENTIAL", "RESTRICTED"):
            said = [name for name, case in names.items() if case.label == label]
            connection.execute("UPDATE document SET sensitivity = ? WHERE doc_id IN (SELECT unnest(?))", [label, said])
    assert audit_file_labels(pipeline.store, pipeline.root, POLICY, workers=0).passed


def test_the_handed_files_are_found_below_their_label(shared: Path, pipeline: Pipeline) -> None:
    folder = shared / "cases" / "labels"
    with (folder / "MANIFEST.tsv").open() as lines:
        wanted = {row["file"]: row["label"] for row in csv.DictReader(lines, delimiter="\t")}
    policy = load_profile(folder / "profile.toml").sensitivity
    pipeline.write({name: (folder / name).read_bytes() for name in wanted})
    unlabelled(pipeline.store, list(wanted))
    result = audit_file_labels(pipeline.store, pipeline.root, policy, workers=0)
    assert result.violations == sum(label != "INTERNAL" for label in wanted.values())
    with pipeline.store.connect() as connection:
        said = dict(connection.execute("SELECT doc_id, label FROM label_proof").fetchall())
    assert {name: label for name, label in wanted.items() if label != "INTERNAL"} == {
        name: label for name, label in said.items() if label and read_label(label).rank > 1
    }


# -- carried labels in parts that are damaged --------------------------------------------------------------------------

_PARTS = {
    "docProps/custom.xml": label_files.custom_xml(label_files.purview(KNOWN)),
    "docMetadata/LabelInfo.xml": label_files.label_info(label_files.info_label(UNKNOWN)),
}


@settings(max_examples=150)
@given(
    part=st.sampled_from(sorted(_PARTS)),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=2),
    cut=st.none() | st.integers(0, 10_000),
)
def test_a_damaged_label_never_says_less(part: str, changes: list[tuple[int, int]], cut: int | None) -> None:
    content = bytearray(_PARTS[part])
    # Behind the declaration: an encoding that does not exist makes no part of it readable, and is tried below.
    start = content.index(b"?>") + 2
    for place, byte in changes:
        content[start + place % (len(content) - start)] = byte
    if cut is not None:
        content = content[: start + cut % (len(content) - start)]
    said = bytes(content)
    whole = {"word/document.xml": b"<w/>", part: said}
    turned_off = part.endswith("LabelInfo.xml") and (b'enabled="0"' in said or b'removed="1"' in said)
    renamed = part.endswith("LabelInfo.xml") and (b"<clbl:label " not in said or b" id=" not in said)
    if turned_off or renamed:
        # This is another statement, and no damage.
        return
    assert stated(label_files.packed(whole), ".docx") == "RESTRICTED"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 50,
        b'<?xml version="1.0" encoding="nonsense"?><Properties/>',
        b'<!DOCTYPE p [<!ENTITY a "true">]><Properties>&b;</Properties>',
    ],
)
@pytest.mark.parametrize("part", sorted(_PARTS))
def test_a_part_for_labels_that_cannot_be_read_may_have_held_any(part: str, content: bytes) -> None:
    assert stated(label_files.packed({"word/document.xml": b"<w/>", part: content}), ".docx") == "RESTRICTED"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_label_is_read_in_every_encoding_of_xml(encoding: str) -> None:
    content = _PARTS["docProps/custom.xml"].decode().replace('encoding="UTF-8" ', "").encode(encoding)
    assert stated(label_files.packed({"a.xml": b"<w/>", "docProps/custom.xml": content}), ".docx") == "RESTRICTED"


# -- what is kept of the proof -----------------------------------------------------------------------------------------


@pytest.fixture
def two(pipeline: Pipeline) -> Pipeline:
    pipeline.write({"said.md": "**Strictly** confidential", "quiet.txt": "About cranes."})
    unlabelled(pipeline.store, ["said.md", "quiet.txt"])
    return pipeline


def verdict(pipeline: Pipeline, policy: SensitivityPolicy = POLICY) -> tuple[int, int]:
    result = audit_file_labels(pipeline.store, pipeline.root, policy, workers=0)
    return result.violations, result.counts["files read again because they or the profile changed"]


def test_a_file_is_read_again_only_when_it_or_the_profile_changed(two: Pipeline) -> None:
    assert verdict(two) == (1, 2)
    assert verdict(two) == (1, 0)
    two.write({"quiet.txt": "About M&A."})
    assert verdict(two) == (2, 1)
    assert verdict(two, SensitivityPolicy(restricted_keywords=("crane",))) == (0, 2)


def test_a_label_that_falls_later_is_found_without_reading_the_file(two: Pipeline) -> None:
    with two.store.connect() as connection:
        connection.execute("UPDATE document SET sensitivity = 'RESTRICTED' WHERE doc_id = 'said.md'")
    assert verdict(two) == (0, 2)
    with two.store.connect() as connection:
        connection.execute("UPDATE document SET sensitivity = 'PUBLIC'")
    assert verdict(two) == (1, 0)


def test_some_files_that_did_not_change_are_drawn_and_read_again(two: Pipeline) -> None:
    verdict(two)
    with two.store.connect() as connection:
        connection.execute("UPDATE label_proof SET label = ''")
    result = audit_file_labels(two.store, two.root, POLICY, workers=0)
    assert result.counts["files drawn and read again"] == 2
    assert result.violations == 1


def test_a_row_with_the_exact_path_stands_above_what_the_file_says(two: Pipeline) -> None:
    two.write({"metadata.csv": "doc_id,sensitivity\nsaid.md,PUBLIC\n"})
    assert verdict(two)[0] == 0
    two.write({"metadata.csv": "doc_id,sensitivity\n*.md,PUBLIC\n"})
    assert verdict(two)[0] == 1


def test_a_file_that_cannot_be_read_again_is_a_warning(pipeline: Pipeline) -> None:
    pipeline.write({"broken.docx": b"PK\x03\x04 and no more", "bad.pdf": b"%PDF-1.7 nothing"})
    unlabelled(pipeline.store, ["broken.docx", "bad.pdf"])
    result = audit_file_labels(pipeline.store, pipeline.root, POLICY, workers=0)
    assert result.passed
    assert len(result.warnings) == 2


def test_the_proof_names_no_words_of_a_file(two: Pipeline) -> None:
    result = audit_file_labels(two.store, two.root, POLICY, workers=0)
    said = " ".join([result.message, *result.examples, *result.warnings, *result.counts])
    assert result.examples[0].startswith("doc:")
    assert "said.md" not in said
    assert "trictly" not in said


def test_a_bomb_costs_the_proof_no_more_than_its_limits(pipeline: Pipeline) -> None:
    from ragspine_assets.documents.extraction import ExtractionLimits

    bomb = label_files.packed({"word/document.xml": b"<w>" + b" " * 50_000_000 + b"</w>"})
    pipeline.write({"bomb.docx": bomb})
    unlabelled(pipeline.store, ["bomb.docx"])
    limits = ExtractionLimits(max_unpacked_bytes=1_000_000)
    result = audit_file_labels(pipeline.store, pipeline.root, POLICY, limits=limits, workers=0)
    assert result.passed
    assert "unpacks to more" in result.warnings[0]


def test_a_stage_that_looks_for_nothing_is_found_out_in_every_format(cases: list[Case], pipeline: Pipeline) -> None:
    # The stage gets another policy than the check: it labels what it reads, and looks for none of the phrases.
    bodies = {case.suffix: case for case in cases if " body: " in case.name and "runs" not in case.name}
    names = {f"said{suffix}": case for suffix, case in bodies.items()}
    pipeline.write({name: case.data for name, case in names.items()})
    pipeline.intake()
    assert dict(pipeline.rows("SELECT doc_id, sensitivity FROM document")) == dict.fromkeys(names, "INTERNAL")
    result = audit_file_labels(pipeline.store, pipeline.root, POLICY, workers=0)
    assert result.violations == len(names) == 10
