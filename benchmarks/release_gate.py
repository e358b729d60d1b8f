"""How often the gate of releases is wrong: seeded harmless changes and seeded damage of the demo corpus.

    python benchmarks/release_gate.py [--seeds 40]

Harmless: a document of words that the corpus uses, and the order in which files are listed. Damage: ten documents that say
the questions again, texts exchanged, and an index that takes each text for its neighbour. Printed is in how many of the changes the new release was held back. The exit code is 1 if more than five of a hundred
harmless changes are, or a damage is not.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from ragspine_assets.documents.metadata import load_metadata_table
from ragspine_assets.evaluation.gate import QualityGate
from ragspine_assets.evaluation.questions import GoldenQuestion, read_questions
from ragspine_assets.graph import update_graph
from ragspine_assets.index.snapshot_index import ReleaseRows
from ragspine_assets.index.tokens import Tokens
from ragspine_assets.pipeline import activate_staged, stage_chunks, sync_documents
from ragspine_assets.policy import load_profile
from ragspine_assets.serving import PublishingRefused, PublishReport, publish, publish_snapshot
from ragspine_assets.store import ChunkStore

DATA = Path(__file__).resolve().parents[1] / "data"


def refresh(folder: Path, questions: Sequence[GoldenQuestion]) -> PublishReport:
    profile = load_profile(DATA / "profile.toml")
    source = folder / "raw"
    with ChunkStore(folder / "store.duckdb") as store:
        table = load_metadata_table(source / "metadata.csv")
        sync_documents(store, source, metadata=table, policy=profile.sensitivity, workers=1)
        stage_chunks(store)
        activate_staged(store)
        update_graph(store, profile)
        return publish_snapshot(store, folder / "snapshots", profile=profile, gate=QualityGate(questions))


def copy_of(prepared: Path, folder: Path) -> Path:
    shutil.copytree(prepared, folder)
    return folder


def harmless(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    words = " ".join(path.read_text(errors="ignore") for path in sorted((folder / "raw").rglob("*.txt"))[:8]).split()
    for number in range(chance.randint(1, 3)):
        text = "\n\n".join(" ".join(chance.choices(words, k=60)) for _ in range(8))
        (folder / "raw" / f"other-{seed}-{number}.txt").write_text(text, encoding="utf-8")


def drowned(folder: Path, questions: Sequence[GoldenQuestion]) -> Sequence[GoldenQuestion]:
    for number in range(10):
        lines = "\n\n".join(f"{question.text} {question.text}" for question in questions)
        (folder / "raw" / f"noise-{number}.txt").write_text(lines, encoding="utf-8")
    return questions


def exchanged(folder: Path, questions: Sequence[GoldenQuestion]) -> Sequence[GoldenQuestion]:
    texts = sorted(
        {one.doc_id for question in questions for one in question.expected if one.doc_id.endswith((".txt", ".md"))}
    )
    paths = [folder / "raw" / name for name in texts]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)
    return questions


DAMAGES: dict[str, Callable[[Path, Sequence[GoldenQuestion]], Sequence[GoldenQuestion]]] = {
    "questions repeated by other documents": drowned,
    "texts exchanged": exchanged,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    arguments = parser.parse_args()
    questions = read_questions(DATA / "questions.tsv")
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        prepared = Path(temporary, "prepared")
        shutil.copytree(DATA / "raw", prepared / "raw")
        refresh(prepared, questions)
        held = 0
        for seed in range(arguments.seeds):
            folder = copy_of(prepared, Path(temporary, f"seed-{seed}"))
            harmless(folder, seed)
            held += bool(refresh(folder, questions).held_back)
            shutil.rmtree(folder)
        print(f"{'harmless changes':<40} {held:>4} of {arguments.seeds} held back")
        wrong += held > 0.05 * arguments.seeds
        for name, damage in DAMAGES.items():
            folder = copy_of(prepared, Path(temporary, "damaged"))
            report = refresh(folder, damage(folder, questions))
            print(f"{name:<40} {'held back' if report.held_back else 'NOT HELD BACK'}")
            wrong += not report.held_back
            shutil.rmtree(folder)
        held_back = mixed_up(prepared, Path(temporary, "mixed"), questions)
        print(f"{'index of the neighbour':<40} {'held back, or refused before' if held_back else 'NOT HELD BACK'}")
        wrong += not held_back
    return int(bool(wrong))


def mixed_up(prepared: Path, folder: Path, questions: Sequence[GoldenQuestion]) -> bool:
    """Index every text under the place of its neighbour, and nothing as it was known from before."""
    copy_of(prepared, folder)
    (folder / "raw" / "one-more.txt").write_text("One more text.\n", encoding="utf-8")
    whole = ReleaseRows.tokens

    def neighbours(self: ReleaseRows, positions: NDArray[np.intp]) -> Iterator[Tokens]:
        texts = list(self.texts)
        return whole(replace(self, texts=[*texts[1:], *texts[:1]]), positions)

    with patch.object(ReleaseRows, "tokens", neighbours), patch.object(publish, "_places", lambda *_: None):
        try:
            return bool(refresh(folder, questions).held_back)
        except PublishingRefused:
            # The proof of isolation found terms that no published text has.
            return True


if __name__ == "__main__":
    sys.exit(main())
