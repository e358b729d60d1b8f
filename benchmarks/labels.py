"""What reading labels costs: a first run with what files say about themselves read and proved, and without.

    python benchmarks/labels.py [FOLDER] [--profile FILE] [--rounds 2]

FOLDER is the source; without one, 10 MB of prose are made up. Each round makes three first runs in turn: as it is, without
the proof, and without the proof and the reading of labels (both replaced by functions that do nothing). Printed is CPU time
of all processes, and what reading and proof add in percent of the run that has neither.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pipeline import RUN, made_up  # pyright: ignore[reportMissingImports]

NO_PROOF = """
import ragspine_assets.defs.checks.documents as checks
from ragspine_assets.audit.result import AuditResult
checks.audit_file_labels = lambda *args, **options: AuditResult().conclude("", "")
"""
NO_READING = """
import ragspine_assets.documents.worker, ragspine_assets.documents.metadata as metadata
import ragspine_assets.pipeline.batch as batch, ragspine_assets.pipeline.documents as stage
from ragspine_assets.policy.labelling import FileLabels, LabelVerdict
ragspine_assets.documents.worker.read_file_labels = lambda *args: FileLabels()
nothing = lambda *args, **options: LabelVerdict("INTERNAL", "default level of the policy")
batch.explain_sensitivity = stage.explain_sensitivity = nothing
metadata.explain_words = lambda *args: ()
"""
KINDS = {"as it is": "", "no proof": NO_PROOF, "neither": NO_PROOF + NO_READING}


def cpu_seconds(source: Path, profile: str, prelude: str) -> float:
    with tempfile.TemporaryDirectory() as temporary:
        script = prelude + RUN.replace('profile=""', f"profile={profile!r}")
        done = subprocess.run(
            [sys.executable, "-c", script, str(source), f"{temporary}/state/store.duckdb", f"{temporary}/home"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr[-2000:])
        said = json.loads(done.stdout.splitlines()[-1])
        if not said["success"]:
            sys.exit("the run failed")
        return said["cpu"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--profile", default="")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        source = arguments.folder or Path(temporary, "source")
        if arguments.folder is None:
            source.mkdir()
            made_up(source)
        found: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(arguments.rounds):
            for kind, prelude in KINDS.items():
                found[kind].append(cpu_seconds(source.resolve(), arguments.profile, prelude))
    base = min(found["neither"])
    print(f"{'first run':<12}{'CPU s, each round':<24}{'least':>8}{'more than neither':>20}")
    for kind, seconds in found.items():
        each = " ".join(f"{second:.1f}" for second in seconds)
        print(f"{kind:<12}{each:<24}{min(seconds):>8.1f}{100 * (min(seconds) / base - 1):>18.1f} %")


if __name__ == "__main__":
    main()
