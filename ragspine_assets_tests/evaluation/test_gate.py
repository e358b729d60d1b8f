"""A release that answers worse is not made current (SPEC 10.2)."""

import random

import pytest

from ragspine_assets.audit.quality import audit_release_quality
from ragspine_assets.evaluation.measures import evaluate
from ragspine_assets.evaluation.questions import read_questions
from ragspine_assets.index import lexical
from ragspine_assets.serving import SnapshotError, publish_snapshot
from ragspine_assets.serving.kept_releases import roll_back
from ragspine_assets.serving.publish import withdraw_raised_snapshots
from ragspine_assets.serving.snapshot_files import snapshot_folders, worse_name

from .conftest import THINGS, Library, passage_of


def damage(library: Library) -> None:
    """Let every answer be drowned by documents that say the question again and again."""
    for thing in THINGS:
        for number in range(12):
            copies = f"who built the {thing} who built the {thing}\n"
            (library.pipeline.root / f"noise-{thing}-{number}.txt").write_text(copies)


def test_a_release_that_answers_worse_is_kept_but_not_current(library: Library) -> None:
    first = library.publish().manifest.name
    damage(library)
    report = library.publish()
    assert not report.published
    assert report.manifest.name == first
    assert library.open().manifest.name == first
    assert worse_name(library.root) == report.held_back
    assert {folder.name for folder in snapshot_folders(library.root)} == {first, report.held_back}
    assert "significantly below" in report.why_held_back


def test_without_the_gate_it_would_be_current(library: Library) -> None:
    first = library.publish().manifest.name
    damage(library)
    library.pipeline.run()
    publish_snapshot(library.pipeline.store, library.root)
    assert library.open().manifest.name != first


def test_it_is_held_back_again_by_the_next_run_and_the_check_finds_it_out_by_itself(library: Library) -> None:
    library.publish()
    damage(library)
    held = library.publish().held_back
    assert library.publish().held_back == held
    result = audit_release_quality(library.root, read_questions(library.questions))
    assert not result.passed
    assert result.examples == [held]
    assert f"ragspine rollback {held}" in result.message


def test_a_person_makes_it_current_and_it_stays_so(library: Library) -> None:
    library.publish()
    damage(library)
    held = library.publish().held_back
    roll_back(library.pipeline.store, library.root, held[:6], max_label="CONFIDENTIAL")
    assert library.open().manifest.name == held
    assert library.publish().manifest.name == held
    assert audit_release_quality(library.root, read_questions(library.questions)).passed


def test_nobody_publishes_by_hand_what_holds_a_raised_label(library: Library) -> None:
    library.publish()
    damage(library)
    held = library.publish().held_back
    with library.pipeline.store.connect() as connection:
        connection.execute("UPDATE document SET sensitivity = 'RESTRICTED' WHERE doc_id = 'mill.txt'")
    with pytest.raises(SnapshotError):
        roll_back(library.pipeline.store, library.root, held, max_label="CONFIDENTIAL")
    assert library.open().manifest.name != held


def test_the_former_release_is_not_kept_current_for_its_quality_when_a_label_in_it_was_raised(library: Library) -> None:
    first = library.publish().manifest.name
    damage(library)
    (library.pipeline.root / "metadata.csv").write_text("doc_id,sensitivity\nmill.txt,RESTRICTED\n")
    report = library.publish()
    assert first in report.withdrawn
    assert "mill.txt" not in {chunk.doc_id for chunk in library.open().chunks}


def test_a_release_that_was_held_back_is_deleted_too_when_a_label_is_raised(library: Library) -> None:
    library.publish()
    damage(library)
    held = library.publish().held_back
    with library.pipeline.store.connect() as connection:
        connection.execute("UPDATE document SET sensitivity = 'RESTRICTED' WHERE doc_id = 'mill.txt'")
        assert held in withdraw_raised_snapshots(connection, library.root)


def test_below_the_floor_nothing_is_current(library: Library) -> None:
    report = library.publish(floor=1.0)
    assert report.published
    (library.pipeline.root / "mill.txt").write_text(f"mill. {passage_of('mill')}\n")
    damage(library)
    assert "below the floor" in library.publish(floor=0.99).why_held_back


def test_a_broken_tokeniser_is_held_back(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.publish()
    (library.pipeline.root / "new.txt").write_text("Something else.\n")
    whole = lexical.LexicalIndex.rank

    def damaged(self: lexical.LexicalIndex, *given: object, **options: object) -> object:
        # The order in which hits come is turned round.
        positions, scores = whole(self, *given, **options)
        return positions[::-1], scores

    library.pipeline.run()
    monkeypatch.setattr(lexical.LexicalIndex, "rank", damaged)
    after = evaluate(library.open(), read_questions(library.questions))
    monkeypatch.undo()
    before = evaluate(library.open(), read_questions(library.questions))
    assert after.mean() < before.mean() - 0.1


def test_texts_that_were_mixed_up_are_held_back(library: Library) -> None:
    first = library.publish().manifest.name
    texts = {name: (library.pipeline.root / name).read_text() for name in library.names}
    for name, other in zip(library.names[:10], [*library.names[1:10], library.names[0]], strict=True):
        (library.pipeline.root / name).write_text(texts[other])
    report = library.publish()
    assert report.manifest.name == first
    assert "10 of 20" in report.why_held_back


def test_a_passage_that_is_gone_or_changed_is_stale_and_no_loss(library: Library) -> None:
    library.publish()
    (library.pipeline.root / "mill.txt").unlink()
    (library.pipeline.root / "dome.txt").write_text("The dome was built by somebody else.\n")
    report = library.publish()
    assert report.published
    found = evaluate(library.open(), read_questions(library.questions))
    assert {one.question.text for one in found.stale()} == {"who built the mill", "who built the dome"}
    assert found.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(6))
def test_an_unrelated_document_raises_no_alarm(library: Library, seed: int) -> None:
    library.publish()
    chance = random.Random(seed)
    words = [f"{a}{b}" for a in ("sal", "tor", "min", "ver") for b in ("ta", "lo", "ri", "nu")]
    for number in range(3):
        text = " ".join(chance.choices([*words, "the", "was", "who", "built", "house"], k=300))
        (library.pipeline.root / f"other-{number}.txt").write_text(text + "\n")
    assert library.publish().published
