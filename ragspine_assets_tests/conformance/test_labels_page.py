"""The page about labels says what happens: its worked example is run as it stands (SPEC 1.8, 1.10, 1.11)."""

from __future__ import annotations

import re
from pathlib import Path

from ragspine_assets.audit.file_labels import audit_file_labels
from ragspine_assets.policy import load_profile
from ragspine_assets_tests.conftest import Pipeline

PAGE = (Path(__file__).parents[2] / "docs" / "labels.md").read_text(encoding="utf-8")


def test_the_worked_example_labels_what_it_says(pipeline: Pipeline, tmp_path: Path) -> None:
    example = PAGE.partition("## A worked example")[2].partition("\n## ")[0]
    files = dict(re.findall(r"^`([\w./-]+)`\n\n```\w+\n(.*?)^```$", example, re.DOTALL | re.MULTILINE))
    labels = dict(re.findall(r"^\| `([\w./-]+)` \| ([A-Z]+) \|", example, re.MULTILINE))
    assert files.keys() - {"metadata.csv"} == labels.keys()
    found = re.search(r"```toml\n(.*?)^```$", example, re.DOTALL | re.MULTILINE)
    assert found
    profile = tmp_path / "profile.toml"
    profile.write_text(found[1], encoding="utf-8")
    pipeline.policy = load_profile(profile).sensitivity
    pipeline.write(files)
    pipeline.intake()
    assert dict(pipeline.rows("SELECT doc_id, sensitivity FROM document")) == labels
    result = audit_file_labels(pipeline.store, pipeline.root, pipeline.policy, workers=0)
    assert result.passed, result.message
    assert result.counts["of these decided by an exact row"] == 1
