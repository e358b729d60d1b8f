"""What a job found, for CI: JUnit XML and a Markdown summary (SPEC 6.4).

Belongs here: writing the verdicts of checks and the failures of steps down. Both files hold what the event log holds, and
no more: counts, references and sentences of ours.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from dagster import AssetCheckSeverity, ExecuteInProcessResult

PROMISES = "promises"


@dataclass(frozen=True)
class Verdict:
    """One check's outcome, or one step that failed.

    Attributes:
        asset: the asset it is about, or ``steps``.
        name: the invariant, or the step.
        outcome: ``holds``, ``look`` (holds, with something to look at), ``broken`` or ``failed``.
        sentence: what was found and what to do.
        seconds: how long the check took.
    """

    asset: str
    name: str
    outcome: str
    sentence: str
    seconds: float = 0.0

    @property
    def is_bad(self) -> bool:
        """Whether it makes the job fail."""
        return self.outcome in ("broken", "failed")


def verdicts(result: ExecuteInProcessResult) -> list[Verdict]:
    """Return what each check and each failed step of a run came to, in the order of the run."""
    found: list[Verdict] = []
    explained: set[str] = set()
    for event in result.filter_events(lambda event: event.event_type_value == "ASSET_CHECK_EVALUATION"):
        check = event.asset_check_evaluation_data
        passed, quiet = check.passed, check.severity is AssetCheckSeverity.WARN
        outcome = ("look" if quiet else "holds") if passed else ("look" if quiet else "broken")
        if outcome == "broken":
            explained.add(event.step_key or "")
        took = check.metadata["seconds"].value if "seconds" in check.metadata else None
        found.append(
            Verdict(
                check.asset_key.to_user_string(), check.check_name, outcome, check.description or "",
                took if isinstance(took, float) else 0.0,
            )
        )  # fmt: skip
    for event in result.filter_events(lambda event: event.is_step_failure):
        failure = event.step_failure_data
        said = failure.user_failure_data.description if failure.user_failure_data else None
        if said or event.step_key not in explained:
            lines = str(said or getattr(failure.error, "message", "") or "it failed").strip().splitlines()
            found.append(Verdict("steps", event.step_key or "", "failed", lines[0] if lines else "it failed"))
    if not result.success and not any(verdict.is_bad for verdict in found):
        found.append(
            Verdict("steps", "run", "failed", "The run failed outside of any step. Its page in Dagster shows where.")
        )
    return found


def write_junit(found: Sequence[Verdict], path: str | Path) -> None:
    """Write verdicts as JUnit XML: a test case per promise, a failure per broken one, an error per failed step."""
    suites = ET.Element("testsuites", name="ragspine_assets")
    for asset in dict.fromkeys(verdict.asset for verdict in found):
        own = [verdict for verdict in found if verdict.asset == asset]
        suite = ET.SubElement(
            suites, "testsuite", name=asset, tests=str(len(own)),
            failures=str(sum(verdict.outcome == "broken" for verdict in own)),
            errors=str(sum(verdict.outcome == "failed" for verdict in own)),
            time=f"{sum(verdict.seconds for verdict in own):.3f}",
        )  # fmt: skip
        for verdict in own:
            case = ET.SubElement(
                suite, "testcase", classname=f"{PROMISES}.{asset}", name=verdict.name, time=f"{verdict.seconds:.3f}"
            )
            sentence = _printable(verdict.sentence)
            if verdict.outcome in ("broken", "failed"):
                kind = "failure" if verdict.outcome == "broken" else "error"
                ET.SubElement(case, kind, message=sentence).text = sentence
            else:
                ET.SubElement(case, "system-out").text = sentence
    tree = ET.ElementTree(suites)
    ET.indent(tree)
    _write(path, ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n")


def write_summary(found: Sequence[Verdict], path: str | Path, *, job: str) -> None:
    """Write verdicts as Markdown, the bad ones first: what a pull request shows."""
    bad = [verdict for verdict in found if verdict.is_bad]
    promises = sum(verdict.asset != "steps" for verdict in found)
    title = f"{len(bad)} broken or failed" if bad else f"all {promises} promises hold"
    lines = [f"## {job}: {title}", "", "| | asset | promise | what was found |", "|---|---|---|---|"]
    signs = {"holds": "✅", "look": "👀", "broken": "❌", "failed": "💥"}
    for verdict in [*bad, *(each for each in found if not each.is_bad)]:
        cells = (signs[verdict.outcome], verdict.asset, verdict.name.replace("_", " "), verdict.sentence)
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    _write(path, "\n".join(lines) + "\n")


# Marks, links, entities, mentions, mathematics and HTML of Markdown as it is shown on the web; addresses that it finds by itself.
_LIVE = re.compile(r"[\\`*_\[\]<>|#&~$!()@]|:(?=//)|(?<=www)\.", re.IGNORECASE)


def _cell(text: str) -> str:
    """Return a text as one cell of a Markdown table, shown as it is whatever it holds: names of files and of graphs."""
    return " ".join(_LIVE.sub(r"\\\g<0>", _printable(text)).split())


# What XML cannot hold, and what turns the direction of the letters around it; names of files may hold both.
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


def _write(path: str | Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
