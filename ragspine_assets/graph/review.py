"""What people decide about a model's edges (SPEC 5.9).

A decision never edits a model edge. `reject` keeps it out of the model's tables; `accept` adds a controlled edge whose
source is the decision, while the model edge stays unverified. A decision rests on the texts that the edge was taken from:
it outlives rebuilds, other extractors and new versions that still hold such a text, and goes with the last of them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from ragspine_assets.documents.headers import header_problems
from ragspine_assets.errors import RagspineError
from ragspine_assets.graph.differences import write_differences
from ragspine_assets.graph.mentions import Vocabulary
from ragspine_assets.graph.temp_tables import existing_tables, registered, table_of
from ragspine_assets.graph.values import DECISION, REVIEW_SOURCE
from ragspine_assets.store.schema import TABLES

ACCEPT = "accept"
REJECT = "reject"
COLUMNS = ("src_type", "src", "type", "dst_type", "dst", "verdict", "who", "when")
"""Columns of the file, in the order `review_template` writes them; the two kinds of ends may be left out."""
_OPTIONAL = {"src_type", "dst_type"}

_KEY = tuple(TABLES["graph_edge"])
TEMPORARY = (
    "gx_known_edge",
    "gx_accepted",
    *(
        f"gx_{what}_{name}"
        for name in ("review_decision", "review_evidence")
        for what in ("wanted", "added", "removed")
    ),
)


class ReviewError(RagspineError, ValueError):
    """A file of decisions cannot be read; the message names file, line and what is allowed."""


@dataclass(frozen=True)
class ReviewDecision:
    """One decision.

    Attributes:
        src, type, dst: the edge, as the model's tables have it.
        verdict: `accept` or `reject`.
        who: who decided.
        when: when, as the person wrote it.
        src_type, dst_type: kinds of its ends; empty means whatever they are.
    """

    src: str
    type: str
    dst: str
    verdict: str
    who: str
    when: str
    src_type: str = ""
    dst_type: str = ""


@dataclass(frozen=True)
class ReviewReport:
    """How the review stands.

    Attributes:
        accepted, rejected: decisions in force.
        waiting: model edges that nobody has decided about.
        unmatched: rows of the file that name no edge that a model asserts or that was decided about.
        screened: decisions without force because an end or the type names an external entity.
        written: whether decisions were written.
    """

    accepted: int = 0
    rejected: int = 0
    waiting: int = 0
    unmatched: int = 0
    screened: int = 0
    written: bool = False


def read_decisions(path: str | Path) -> list[ReviewDecision] | None:
    """Read a file of decisions; None where there is no such file, which leaves what was decided as it is.

    The file is the whole of what is decided: a row that is taken out of it is taken back. Of two rows about one edge the
    later one counts.

    Raises:
        ReviewError: the file is no CSV in UTF-8, a column is missing or unknown, or a row says nothing or too little.
    """
    path = Path(path)
    if not path.is_file():
        return None
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ReviewError(f"{path} is not text in UTF-8. Save it as CSV in UTF-8.") from None
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    decisions: list[ReviewDecision] = []
    try:
        columns = [name.strip() for name in rows.fieldnames or ()]
        if problems := header_problems(columns, COLUMNS, _OPTIONAL):
            raise ReviewError(
                f"{path}: {'; '.join(problems)}. It must have the columns {', '.join(COLUMNS)}; the two kinds of ends "
                "may be left out."
            )
        rows.fieldnames = columns
        for row in rows:
            values = {name: plain_cell((value or "").strip()) for name, value in row.items() if isinstance(name, str)}
            verdict = values["verdict"].casefold()
            if None in row or verdict not in {ACCEPT, REJECT}:
                raise ReviewError(f"{path}, line {rows.line_num}: verdict must be {ACCEPT} or {REJECT}.")
            empty = [name for name in ("src", "type", "dst", "who", "when") if not values[name]]
            if empty:
                raise ReviewError(f"{path}, line {rows.line_num}: {', '.join(empty)} must not be empty.")
            decisions.append(ReviewDecision(**{**values, "verdict": verdict}))
    except csv.Error:
        raise ReviewError(f"{path}, line {rows.line_num}: this is no CSV. Check quotes and separators.") from None
    return decisions


def stage_review(
    con: duckdb.DuckDBPyConnection, decisions: Sequence[ReviewDecision] | None, vocabulary: Vocabulary
) -> ReviewReport:
    """Bring decisions up to date, and make `gx_accepted`: the evidence of accepted edges.

    Within the caller's transaction; `gx_state` and `gx_asserted` must be staged.

    Args:
        con: the connection.
        decisions: all decisions; None keeps those that are stored.
        vocabulary: the profile's names: an accepted edge may not name an external entity.

    Returns:
        The report, without `waiting`, which is known only once the model's tables are written.
    """
    key = ", ".join(_KEY)
    if not existing_tables(con).issuperset({"review_decision", "review_evidence", "narrative_chunk"}):
        con.execute(f"CREATE TEMP TABLE gx_accepted AS {_ACCEPTED_NONE}")
        return ReviewReport()
    con.execute(
        f"CREATE TEMP TABLE gx_known_edge AS SELECT DISTINCT {key} FROM gx_asserted"
        f" UNION SELECT {key} FROM review_decision"
    )
    unmatched = 0
    if decisions is None:
        rows = con.execute(f"SELECT {key}, verdict, decided_by, decided_at FROM review_decision").fetchall()
    else:
        with registered(con, gx_decision_in=_decision_rows(decisions)):
            rows = con.execute(_MATCHED).fetchall()
            unmatched = int(con.execute(f"SELECT count(*) FROM gx_decision_in d ANTI {_MATCH}").fetchall()[0][0])
    kept = [row for row in rows if not any(map(vocabulary.names_external, (row[1], row[3], row[4])))]
    columns = tuple(TABLES["review_decision"])
    wanted = table_of(
        {name: [row[number] for row in kept] for number, name in enumerate(columns)},
        pa.schema([(name, pa.string()) for name in columns]),
    )
    with registered(con, gx_kept_decision=wanted):
        con.execute(
            f"""
            CREATE TEMP TABLE gx_wanted_review_evidence AS
            SELECT DISTINCT {key}, doc_id, text_hash FROM (
                SELECT {key}, doc_id, text_hash FROM gx_asserted
                UNION
                SELECT e.* FROM review_evidence e SEMI JOIN (
                    SELECT DISTINCT doc_id, sha256(text) AS text_hash
                    FROM narrative_chunk JOIN gx_state s USING (doc_id)
                    WHERE narrative_chunk.active AND NOT s.restricted AND NOT s.removed
                        AND doc_id IN (SELECT doc_id FROM review_evidence)
                ) USING (doc_id, text_hash)
            ) SEMI JOIN gx_kept_decision USING ({key})
            """
        )
        con.execute(
            "CREATE TEMP TABLE gx_wanted_review_decision AS"
            f" SELECT * FROM gx_kept_decision SEMI JOIN gx_wanted_review_evidence USING ({key})"
        )
    written = False
    for table in ("review_decision", "review_evidence"):
        written |= write_differences(con, table, tuple(TABLES[table])).written
    con.execute(f"CREATE TEMP TABLE gx_accepted AS {_ACCEPTED}")
    verdicts = dict(con.execute("SELECT verdict, count(*) FROM review_decision GROUP BY verdict").fetchall())
    return ReviewReport(
        accepted=int(verdicts.get(ACCEPT, 0)),
        rejected=int(verdicts.get(REJECT, 0)),
        unmatched=unmatched,
        screened=len(rows) - len(kept),
        written=written,
    )


def waiting_edges(con: duckdb.DuckDBPyConnection) -> int:
    """Return how many model edges nobody has decided about."""
    if not existing_tables(con).issuperset({"review_decision", "model_edge"}):
        return 0
    key = ", ".join(_KEY)
    return int(con.execute(f"SELECT count(*) FROM model_edge ANTI JOIN review_decision USING ({key})").fetchall()[0][0])


def review_template(con: duckdb.DuckDBPyConnection) -> str:
    """Return a CSV of the model edges that wait for a decision, by edge, with empty columns to fill in.

    Args:
        con: a store; or what `serving.servable_graph` connects to, for reviewers who may not see all that is in the store.
    """
    key = ", ".join(_KEY)
    rows = con.execute(
        f"SELECT src_type, src, type, dst_type, dst FROM model_edge ANTI JOIN review_decision USING ({key})"
        " ORDER BY src, dst, type, src_type, dst_type"
    ).fetchall()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((*map(inert_cell, row), "", "", "") for row in rows)
    return out.getvalue()


# What a spreadsheet may take for the beginning of a formula, in every width that NFKC makes the same, or for a cell's end.
_FORMULA = (
    "=\u207c\u208c\u2a75\u2a76\ufe66\uff1d+\u207a\u208a\ufb29\ufe62\uff0b\\-\u2212\ufe63\uff0d@\ufe6b\uff20\t\r\n"
)
# Before it may stand what a spreadsheet or a person's eye skips. A cell begins again where another locale separates.
_SKIPPED = "(?:[^\\S\\t\\r\\n]|['\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff\x00-\x08\x0e-\x1f\x7f])*"
_BEGINNING = "(?:^|(?<=[;|\t\r\n]))"
_LIVE = re.compile(f"{_BEGINNING}(?={_SKIPPED}[{_FORMULA}])")
_INERT = re.compile(f"{_BEGINNING}'(?={_SKIPPED}[{_FORMULA}])")


def inert_cell(value: str) -> str:
    """Return what to write into a CSV for a value that no spreadsheet may take for a formula; `plain_cell` undoes it.

    A model chooses these names. An apostrophe in front makes a cell a text, for Excel, LibreOffice and Google alike; a
    value that has some in front of what would be a formula gets one more, so that reading takes off what writing put on.
    """
    return _LIVE.sub("'", value)


def plain_cell(cell: str) -> str:
    """Return the value that `inert_cell` wrote; a cell that a person or a spreadsheet wrote without it is itself."""
    return _INERT.sub("", cell)


def _decision_rows(decisions: Sequence[ReviewDecision]) -> pa.Table:
    names = {"src_type", "src", "dst_type", "dst", "type", "verdict", "who", "when"}
    return pa.table(
        {
            "number": list(range(len(decisions))),
            **{name: [getattr(decision, name) for decision in decisions] for name in sorted(names)},
        },
        schema=pa.schema([("number", pa.int64()), *((name, pa.string()) for name in sorted(names))]),
    )


_MATCH = """
    JOIN gx_known_edge k ON k.src = d.src AND k.type = d.type AND k.dst = d.dst
        AND (d.src_type = '' OR d.src_type = k.src_type) AND (d.dst_type = '' OR d.dst_type = k.dst_type)
"""
_MATCHED = f"""
    SELECT {", ".join(f"k.{name}" for name in _KEY)}, arg_max(d.verdict, d.number), arg_max(d.who, d.number),
        arg_max(d."when", d.number)
    FROM gx_decision_in d {_MATCH} GROUP BY {", ".join(f"k.{name}" for name in _KEY)}
"""
# A decision is cited once for each document it rests on, in that document's name: whoever may not see the document does
# not see the decision either.
_ACCEPTED = f"""
    WITH resting AS (
        SELECT {", ".join(f"e.{name}" for name in _KEY)}, c.*
        FROM review_evidence e
        SEMI JOIN (FROM review_decision WHERE verdict = '{ACCEPT}') USING ({", ".join(_KEY)})
        JOIN (
            SELECT doc_id, source_locator, chunk_id, version, sha256(text) AS text_hash
            FROM narrative_chunk JOIN gx_state s USING (doc_id)
            WHERE narrative_chunk.active AND NOT s.restricted AND NOT s.removed
                AND doc_id IN (SELECT doc_id FROM review_evidence)
        ) c ON c.doc_id = e.doc_id AND c.text_hash = e.text_hash
    )
    SELECT DISTINCT {", ".join(_KEY)}, 'review' AS kind, '{REVIEW_SOURCE}' AS source_doc_id,
        doc_id || '#{DECISION}' || substr(sha256(concat_ws(chr(31), {", ".join(_KEY)})), 1, 16) AS source_locator,
        '' AS chunk_id, 0::INTEGER AS version
    FROM resting
    UNION ALL
    SELECT DISTINCT {", ".join(_KEY)}, 'reviewed', doc_id,
        coalesce(nullif(source_locator, ''), doc_id || '#chunk'), chunk_id, version
    FROM resting
"""
_ACCEPTED_NONE = f"""
    SELECT {", ".join(f"'' AS {name}" for name in _KEY)}, '' AS kind, '' AS source_doc_id, '' AS source_locator,
        '' AS chunk_id, 0::INTEGER AS version
    WHERE FALSE
"""
