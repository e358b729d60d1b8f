"""Chunkers by name, and what tells one from another (SPEC 2.8, 1.9)."""

import sys
from pathlib import Path

import pytest

from ragspine_assets.chunking import (
    Chunk,
    Chunker,
    DefaultChunker,
    DocumentMeta,
    LayoutAwareChunker,
    ParentChildChunker,
    SentenceWindowChunker,
    make_chunker,
)
from ragspine_assets.chunking.enforcement import chunker_identity, cut_document
from ragspine_assets.chunking.layout import BookChunker, LawsChunker, QaChunker
from ragspine_assets.errors import SettingError

MODULE = """
from ragspine_assets.chunking import chunk_document

class {name}:
    def __init__(self, size=3):
        self.size = size
    def chunk(self, text, meta, *, max_chars=480, overlap_chars=80):
        return chunk_document(text, meta, max_chars=max_chars, overlap_chars=overlap_chars)
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution that registers chunkers, one of them under a name of ours and one that cannot load."""
    (tmp_path / "third_party_chunkers.py").write_text(MODULE.format(name="Mine") + "\nnot_one = int\na_number = 3\n")
    info = tmp_path / "third_party-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text(
        "[ragspine.chunkers]\n"
        "My-Own = third_party_chunkers:Mine\n"
        "layout = third_party_chunkers:Mine\n"
        "broken = no_such_module_at_all:Chunker\n"
        "wrong = third_party_chunkers:not_one\n"
        "missing = third_party_chunkers:NoSuchName\n"
        "number = third_party_chunkers:a_number\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "third_party_chunkers", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["default", "recursive", "structural"], DefaultChunker),
        (["layout"], LayoutAwareChunker),
        (["laws", "law", "legal"], LawsChunker),
        (["qa", "faq"], QaChunker),
        (["book", "chapter"], BookChunker),
        (["parent_child", "parent-child", "small_to_big", "small-to-big", " Parent_Child "], ParentChildChunker),
        (["sentence_window", "sentence-window", "SENTENCE-WINDOW\t"], SentenceWindowChunker),
    ],
)
def test_a_chunker_is_made_by_each_of_its_names(names: list[str], expected: type) -> None:
    for name in names:
        made = make_chunker(name)
        assert type(made) is expected
        assert isinstance(made, Chunker)


@pytest.mark.parametrize("spec", ["none", " NONE ", "", "  "])
def test_none_and_blank_mean_the_built_in_rule(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSPINE_CHUNKER", "layout")
    assert make_chunker(spec) is None


def test_without_a_spec_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGSPINE_CHUNKER", raising=False)
    assert make_chunker() is None
    monkeypatch.setenv("RAGSPINE_CHUNKER", "Small-To-Big")
    assert isinstance(make_chunker(), ParentChildChunker)
    monkeypatch.setenv("RAGSPINE_CHUNKER", " ")
    assert make_chunker() is None


def test_arguments_reach_the_chunker() -> None:
    assert make_chunker("sentence_window", window_size=0) == SentenceWindowChunker(0)
    assert make_chunker("parent_child", max_window_chars=100) == ParentChildChunker(100)


def test_wrong_arguments_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'layout' has no parameter 'window_size'"):
        make_chunker("layout", window_size=3)
    with pytest.raises(ValueError, match="window_size must be at least 0"):
        make_chunker("sentence_window", window_size=-1)


def test_an_unknown_spec_is_refused_with_a_list_of_what_there_is(third_party: Path) -> None:
    with pytest.raises(ValueError, match="unknown chunker 'semantic'") as caught:
        make_chunker("semantic")
    for name in ("none", "default", "layout", "laws", "qa", "book", "parent_child", "sentence_window", "My-Own"):
        assert name in str(caught.value)


def test_a_registered_chunker_is_found_by_its_name_and_only_it_is_loaded(third_party: Path) -> None:
    made = make_chunker(" my-own ", size=5)
    assert type(made).__name__ == "Mine"
    assert vars(made) == {"size": 5}
    assert [chunk.text for chunk in cut_document("a\n\nb", DocumentMeta("d"), made)] == ["a\nb"]


def test_a_built_in_name_cannot_be_taken_and_loads_nothing_foreign(third_party: Path) -> None:
    assert type(make_chunker("layout")) is LayoutAwareChunker
    assert "third_party_chunkers" not in sys.modules


def test_what_was_registered_and_is_no_chunker_is_refused(third_party: Path) -> None:
    with pytest.raises(ValueError, match="is a int without a method chunk"):
        make_chunker("wrong")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            "broken",
            "which third-party registers as no_such_module_at_all:Chunker, cannot be loaded (ModuleNotFoundError: ",
        ),
        (
            "missing",
            "which third-party registers as third_party_chunkers:NoSuchName, cannot be loaded (AttributeError: ",
        ),
        ("number", "is made by nothing that can be called alone"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_a_sentence_when_the_definitions_load(
    third_party: Path, spec: str, said: str
) -> None:
    from ragspine_assets.defs.resources import ChunkerResource

    for make in (make_chunker, lambda spec: ChunkerResource(spec=spec)):
        with pytest.raises(SettingError) as caught:
            make(spec)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "pydantic" not in str(caught.value)


def test_the_identity_of_the_built_in_rule_is_that_of_the_default_chunker() -> None:
    assert chunker_identity(None, 480, 80) == chunker_identity(DefaultChunker(), 480, 80)


def test_identities_differ_by_kind_parameters_and_sizes() -> None:
    identities = [
        chunker_identity(None, 480, 80),
        chunker_identity(None, 480, 79),
        chunker_identity(None, 481, 80),
        chunker_identity(LayoutAwareChunker(), 480, 80),
        chunker_identity(LawsChunker(), 480, 80),
        chunker_identity(ParentChildChunker(), 480, 80),
        chunker_identity(ParentChildChunker(100), 480, 80),
        chunker_identity(SentenceWindowChunker(), 480, 80),
        chunker_identity(SentenceWindowChunker(1), 480, 80),
    ]
    assert len(set(identities)) == len(identities)
    assert chunker_identity(ParentChildChunker(8_000), 480, 80) == chunker_identity(ParentChildChunker(), 480, 80)


def test_the_identity_of_a_registered_chunker_names_its_distribution_and_parameters(third_party: Path) -> None:
    assert chunker_identity(make_chunker("my-own", size=5), 480, 80) == (
        "third_party_chunkers.Mine(size=5) of third-party/2.5, max_chars=480, overlap_chars=80"
    )


def test_the_identity_of_any_object_is_stable() -> None:
    class Local:
        def __init__(self) -> None:
            self.state = object()

        def chunk(self, text: str, meta: DocumentMeta, *, max_chars: int = 0, overlap_chars: int = 0) -> list[Chunk]:
            return []

    assert chunker_identity(Local(), 480, 80) == chunker_identity(Local(), 480, 80)
    assert " at 0x" not in chunker_identity(Local(), 480, 80)


@pytest.mark.parametrize(
    "spec",
    ["sentence_window(window_size=2)", " Sentence-Window ( window_size = 2 ) ", "sentence_window(window_size=2,)"],
)
def test_parameters_may_stand_in_the_spec(spec: str) -> None:
    assert make_chunker(spec) == SentenceWindowChunker(window_size=2)
    assert make_chunker(spec, window_size=5) == SentenceWindowChunker(window_size=5)


def test_a_spec_with_empty_parentheses_is_the_name_alone() -> None:
    assert make_chunker("parent_child()") == ParentChildChunker()
    assert make_chunker("none()") is None


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("sentence_windw", "did you mean 'sentence_window'"),
        ("sentence_window(windw_size=2)", "did you mean 'window_size'.*window_size=3"),
        ("sentence_window(window_size='2')", "not '2'"),
        ("sentence_window(window_size=True)", "not True"),
        ("sentence_window(2)", "PARAMETER=VALUE"),
        ("sentence_window(window_size=2", "PARAMETER=VALUE"),
        ("sentence_window(window_size=2) layout", "PARAMETER=VALUE"),
        ("sentence_window(window_size=__import__('os').getpid())", "PARAMETER=VALUE"),
        ("sentence_window(**{})", None),
        ("none(window_size=2)", "has no parameters"),
        ("layout(window_size=2)", "It has: none"),
    ],
)
def test_a_spec_that_cannot_be_obeyed_says_what_can(spec: str, said: str | None) -> None:
    if said is None:
        assert make_chunker(spec) == SentenceWindowChunker()
        return
    with pytest.raises(ValueError, match=said):
        make_chunker(spec)
