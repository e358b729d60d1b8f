"""Damage files in many ways and put them through extraction: `make fuzz` (SPEC 1.6, 6.5).

Whatever a file holds, each is answered for as ingested, no_text or failed, within its time limit, and the memory of
neither this process nor the workers grows without bound. Prints what came out and exits 1 if a promise broke.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from ragspine_assets.documents.extraction import ExtractionLimits
from ragspine_assets.documents.pool import ExtractionPool, batch_files
from ragspine_assets.documents.source import SUPPORTED_SUFFIXES, SourceFile, scan_source, suffix_of

ROOT = Path(__file__).resolve().parents[1]
CORPORA = (ROOT / "data" / "raw", ROOT.parent / "shared" / "corpus" / "files")
TIME_LIMIT_S = 15.0
MAX_SEED_BYTES = 400_000
STATUSES = {"ingested", "no_text", "failed"}


def seeds() -> list[tuple[str, bytes]]:
    """Return the sound files that are damaged: those of the demo, and of the handed corpus where it is."""
    found = []
    for corpus in CORPORA:
        for path in sorted(corpus.rglob("*")) if corpus.is_dir() else ():
            suffix = suffix_of(path.name)
            if path.is_file() and suffix in SUPPORTED_SUFFIXES and path.stat().st_size <= MAX_SEED_BYTES:
                found.append((suffix, path.read_bytes()))
    return found


def damage(data: bytes, rng: random.Random, other: bytes) -> bytes:
    """Change a file's bytes in one of the ways that disks, transfers and people do."""
    damaged = bytearray(data)
    size = max(len(damaged), 1)
    kind = rng.randrange(8)
    if kind <= 2 and damaged:
        for _ in range(rng.choice((1, 3, 10, 100))):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    elif kind == 3:
        del damaged[rng.randrange(size) :]
    elif kind == 4:
        start = rng.randrange(size)
        del damaged[start : start + rng.randrange(1, 4096)]
    elif kind == 5:
        start = rng.randrange(size)
        damaged[start:start] = rng.randbytes(rng.randrange(1, 4096))
    elif kind == 6:
        start = rng.randrange(size)
        damaged[start : start + 64] = rng.choice((b"\xff", b"\0", b"\x7f", b"9", b"<", b"(")) * 64
    else:
        start = rng.randrange(max(len(other), 1))
        damaged[rng.randrange(size) :] = other[start:]
    return bytes(damaged)


def children_mb() -> float:
    """Return the largest resident size that any ended worker had, in MB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def own_mb() -> float:
    """Return the resident size of this process now, in MB."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def one_round(folder: Path, number: int, sound: list[tuple[str, bytes]], rng: random.Random) -> list[SourceFile]:
    """Write one round of damaged files; hold them all to be documents."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for index in range(number):
        suffix, data = rng.choice(sound)
        _, other = rng.choice(sound)
        if rng.random() < 0.03:
            suffix = rng.choice(sorted(SUPPORTED_SUFFIXES))
        (folder / f"f{index}{suffix}").write_bytes(damage(data, rng, other))
    return list(scan_source(folder).files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long to go on")
    parser.add_argument("--files", type=int, default=0, help="stop after so many files; 0 for no limit")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", default="", help="folder for the files that broke a promise")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    sound = seeds()
    limits = ExtractionLimits(time_limit_s=TIME_LIMIT_S)
    until = time.monotonic() + given.seconds
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    broken: list[str] = []
    memory: list[float] = []
    done = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name) / "files"
        while time.monotonic() < until and not (given.files and done >= given.files):
            files = one_round(folder, 400, sound, rng)
            began = time.monotonic()
            answered: Counter[str] = Counter()
            with ExtractionPool(folder, limits, workers=given.workers) as pool:
                for batch in pool.run(batch_files(files)):
                    for row in batch.select(["doc_id", "status", "reason"]).to_pylist():
                        answered[row["doc_id"]] += 1
                        outcomes[row["status"]] += 1
                        if row["status"] == "failed":
                            reasons[str(row["reason"]).partition("(")[0].strip()[:90]] += 1
                        if row["status"] not in STATUSES or (row["status"] == "failed" and not row["reason"]):
                            broken.append(f"{row['doc_id']}: status {row['status']!r} without a reason")
            took = time.monotonic() - began
            for file in files:
                if answered[file.doc_id] != 1:
                    broken.append(f"{file.doc_id}: answered {answered[file.doc_id]} times")
                    if given.keep:
                        shutil.copy(folder / file.path, given.keep)
            done += len(files)
            memory.append(own_mb())
            print(
                f"{done:7} files, {took:5.1f} s a round, {dict(sorted(outcomes.items()))}, own {memory[-1]:.0f} MB, "
                f"largest worker {children_mb():.0f} MB",
                flush=True,
            )
    if len(memory) > 4 and memory[-1] > memory[2] * 1.5 + 100:
        broken.append(f"memory of this process grew from {memory[2]:.0f} to {memory[-1]:.0f} MB")
    print(f"seed {given.seed}; why files failed:")
    for reason, count in reasons.most_common(25):
        print(f"{count:7} {reason}")
    for fault in broken[:20]:
        print(f"BROKEN {fault}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
