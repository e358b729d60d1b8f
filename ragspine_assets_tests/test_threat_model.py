"""What docs/threat-model.md names as a proof exists."""

import re
from pathlib import Path

from ragspine_assets.defs import build_defs

ROOT = Path(__file__).resolve().parents[1]


def test_every_proof_that_the_threat_model_names_exists() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text()
    proofs = text.partition("## What is proved")[2].partition("## What is not promised")[0]
    attacks = set(
        re.findall(
            r"^@attack\(.*?\)\ndef (\w+)", (ROOT / "scripts" / "attack.py").read_text(), re.DOTALL | re.MULTILINE
        )
    )
    tests = {
        name
        for path in (ROOT / "ragspine_assets_tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    graph = build_defs().get_repository_def().asset_graph
    checks = {key.name for key in graph.asset_check_keys}
    named = set(re.findall(r"`(\w+)`", proofs))
    assert len(named) > 20
    assert named - attacks - tests - checks == set()
    assert attacks <= named, "an attack that the table does not name"
    assert [f"LLM{number:02}" for number in range(1, 11)] == re.findall(r"^\| (LLM\d\d)", proofs, re.MULTILINE)
