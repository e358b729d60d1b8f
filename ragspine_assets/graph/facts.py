"""Reading facts from CSV and Parquet, and keeping the store's table of them (SPEC 6.1).

Errors name the file, the line and the column, never what a cell holds.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from ragspine_assets.documents.citations import DocumentNames, cited_id
from ragspine_assets.documents.headers import header_problems
from ragspine_assets.errors import RagspineError
from ragspine_assets.graph.temp_tables import (
    CITES_CLOSED,
    CITING,
    closed_documents,
    guarded_documents,
    registered,
    stage_citations,
    stage_document_states,
    table_of,
    temporary,
    transaction,
)
from ragspine_assets.graph.values import Fact

if TYPE_CHECKING:
    import pandas as pd


FACT_SCHEMA = pa.schema(
    [
        ("metric_code", pa.string()),
        ("entity", pa.string()),
        ("period_type", pa.string()),
        ("period", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("source_doc_id", pa.string()),
        ("source_locator", pa.string()),
    ]
)
"""Columns of a table of facts, in order."""

_COLUMNS = tuple(field.name for field in fields(Fact))
_NEVER_EMPTY = ("metric_code", "entity", "source_doc_id", "source_locator")
_SUFFIXES = {".csv", ".parquet"}
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class FactsError(RagspineError, ValueError):
    """A file of facts cannot be used; the message says which file, where in it, and what is allowed."""


@dataclass(frozen=True)
class FactsReport:
    """What a write of facts did.

    Attributes:
        rows: facts in the store now; those of RESTRICTED documents are not among them.
        added: facts that were not there before.
        removed: facts that are no longer there.
        written: whether anything was written.
        digest: sha256 of what is stored, independent of order and machine.
    """

    rows: int
    added: int
    removed: int
    written: bool
    digest: str


def read_facts(source: Path | str) -> pa.Table:
    """Return the facts of one CSV or Parquet file, or of every such file under a folder (SPEC 6.1).

    Every file has exactly the columns of `FACT_SCHEMA`, in any order. CSV is UTF-8, with or without BOM. The result is
    sorted by all columns and holds equal rows once, so that it does not depend on names or order of files. Hidden
    files and other types in a folder are passed over.

    Raises:
        FactsError: if the path does not exist, a file cannot be read, a column is missing, unknown or given twice, a
            row lacks metric, entity or source, or a value is not a finite number.
    """
    path = Path(source)
    if path.is_dir():
        files = sorted(
            file
            for file in path.rglob("*")
            if file.suffix.lower() in _SUFFIXES
            and file.is_file()
            and not any(part.startswith((".", "~$")) for part in file.relative_to(path).parts)
        )
        names = [file.relative_to(path).as_posix() for file in files]
    elif not path.exists() and path.suffix.lower() in ("", *_SUFFIXES):
        raise FactsError(f"{path}: there is no such file or folder of facts. Set FACTS= (RAGSPINE_FACTS) to one.")
    elif path.suffix.lower() not in _SUFFIXES:
        raise FactsError(f"{path.name}: facts are read from a .csv or .parquet file or a folder of them")
    else:
        files, names = [path], [path.name]
    tables = [_read_file(file, name) for file, name in zip(files, names, strict=True)]
    return _tidy(pa.concat_tables([FACT_SCHEMA.empty_table(), *tables]))


def fact_table(facts: Iterable[Fact]) -> pa.Table:
    """Return facts as a table of `FACT_SCHEMA`, sorted and without repetitions."""
    rows = list(facts)
    return _tidy(table_of({name: [getattr(fact, name) for fact in rows] for name in _COLUMNS}, FACT_SCHEMA))


def _tidy(table: pa.Table) -> pa.Table:
    if not table.num_rows:
        return table
    return (
        table.group_by(list(_COLUMNS))
        .aggregate([])
        .select(_COLUMNS)
        .sort_by([(name, "ascending") for name in _COLUMNS])
    )


def _read_file(path: Path, name: str) -> pa.Table:
    import pandas as pd

    frame = _read_csv(path, name) if path.suffix.lower() == ".csv" else _read_parquet(path, name)
    found = [str(column).strip() for column in frame.columns]
    allowed = ", ".join(_COLUMNS)
    if problems := header_problems(found, _COLUMNS):
        raise FactsError(f"{name}: {'; '.join(problems)}. A file of facts has the columns {allowed}")
    frame.columns = pd.Index(found)
    texts = {column: _texts(pd.Series(frame[column])) for column in _COLUMNS}
    kept = ~np.logical_and.reduce([column == "" for column in texts.values()])
    lines = _LineNumbers(frame, csv=path.suffix.lower() == ".csv")
    for column in _NEVER_EMPTY:
        empty = np.flatnonzero(kept & (texts[column] == ""))
        if len(empty):
            why = "; every fact says where it comes from" if column.startswith("source") else ""
            raise FactsError(f"{name}, {lines.of(int(empty[0]))}: {column} is empty{why}")
    values = _numbers(pd.Series(frame["value"]), texts["value"])
    wrong = np.flatnonzero(kept & ~np.isfinite(values))
    if len(wrong):
        raise FactsError(
            f"{name}, {lines.of(int(wrong[0]))}: value is not a finite number (digits, a decimal point, an exponent; "
            "no thousands separators)"
        )
    texts["source_doc_id"] = np.array([unicodedata.normalize("NFC", text) for text in texts["source_doc_id"]], object)
    columns = {column: values if column == "value" else texts[column] for column in _COLUMNS}
    return pa.table({column: cells[kept] for column, cells in columns.items()}, schema=FACT_SCHEMA)


def _read_csv(path: Path, name: str) -> pd.DataFrame:
    import pandas as pd

    try:
        with warnings.catch_warnings():
            # pandas only warns when a row has more cells than the header, and then drops them.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, encoding="utf-8-sig")
            frame = pd.read_csv(
                path,
                header=None,
                skiprows=1,
                names=list(range(header.shape[1])),
                index_col=False,
                dtype=str,
                keep_default_na=False,
                skip_blank_lines=False,
                encoding="utf-8-sig",
            )
    except pd.errors.EmptyDataError:
        return pd.DataFrame({column: pd.Series(dtype=object) for column in _COLUMNS})
    except UnicodeError:
        raise FactsError(f"{name}: not UTF-8; save the file as UTF-8") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        line = re.search(r"\bline (\d+)\b", str(error))
        where = f", line {line.group(1)}" if line else ""
        raise FactsError(f"{name}{where}: a row has more cells than there are columns, or a quote is open") from None
    except OSError as error:
        raise FactsError(f"{name}: cannot be read ({type(error).__name__})") from None
    frame.columns = pd.Index([str(cell) for cell in header.iloc[0]])
    return frame


def _read_parquet(path: Path, name: str) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FactsError(f"{name}: not a readable Parquet file ({type(error).__name__})") from None


def _texts(column: pd.Series) -> np.ndarray:
    """Return a column as stripped strings; missing cells are empty, whole floats lose their `.0` (years in Parquet)."""
    import pandas as pd

    missing = column.isna().to_numpy()
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        column = column.dt.strftime("%Y-%m-%d")
    cells = column.tolist()
    return np.array([_text(cell) if there else "" for cell, there in zip(cells, ~missing, strict=True)], dtype=object)


def _text(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _numbers(column: pd.Series, texts: np.ndarray) -> np.ndarray:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.array([float(text) if _NUMBER.fullmatch(text) else np.nan for text in texts], dtype=np.float64)


class _LineNumbers:
    """Where a row stands in its file: the line of a CSV (quoted cells may span several), the row of a Parquet file."""

    def __init__(self, frame: pd.DataFrame, *, csv: bool) -> None:
        self._frame = frame
        self._csv = csv

    def of(self, row: int) -> str:
        if not self._csv:
            return f"row {row + 1}"
        inner = sum(str(cell).count("\n") for cells in self._frame.iloc[:row].to_numpy() for cell in cells)
        return f"line {row + 2 + inner}"


_STORED = f"SELECT {', '.join(_COLUMNS)} FROM fact"
_DIGEST = f"""
    SELECT count(*), coalesce(sum(('0x' || substr(h, 1, 16))::UBIGINT), 0),
        coalesce(sum(('0x' || substr(h, 17, 16))::UBIGINT), 0)
    FROM (SELECT sha256(concat_ws(chr(31), {", ".join(_COLUMNS)})) AS h FROM fact)
"""


def write_facts(con: duckdb.DuckDBPyConnection, facts: pa.Table) -> FactsReport:
    """Make the store's facts those of the table, writing the differences only, in one transaction.

    Facts of documents that are RESTRICTED now are not stored, however they spell the document: the table is open to any
    reader (SPEC 5.4). A fact that spells a document's path in a way of its own is stored under the document's id.
    """
    with transaction(con), temporary(con, "gx_state", "gx_fact_wanted", CITING), ExitStack() as stack:
        stage_document_states(con)
        known = {doc_id for (doc_id,) in con.execute("SELECT doc_id FROM gx_state").fetchall()}
        stack.enter_context(registered(con, gx_cited=_under_known_ids(facts, known)))
        stage_citations(con, ["gx_cited"], closed_documents(con), guarded_documents(con))
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE gx_fact_wanted AS SELECT DISTINCT * FROM gx_cited WHERE NOT {CITES_CLOSED}"
        )
        added = con.execute(
            f"INSERT INTO fact BY NAME (SELECT * FROM gx_fact_wanted EXCEPT {_STORED}) ORDER BY ALL"
        ).fetchall()
        removed = con.execute(
            """
            DELETE FROM fact WHERE NOT EXISTS (FROM gx_fact_wanted w WHERE w.metric_code = fact.metric_code
                AND w.entity = fact.entity AND w.period_type = fact.period_type AND w.period = fact.period
                AND w.value IS NOT DISTINCT FROM fact.value AND w.unit = fact.unit
                AND w.source_doc_id = fact.source_doc_id AND w.source_locator = fact.source_locator)
            """
        ).fetchall()
        rows, digest = _stored_digest(con)
    counts = int(added[0][0]), int(removed[0][0])
    return FactsReport(rows, *counts, written=any(counts), digest=digest)


def _under_known_ids(facts: pa.Table, known: Collection[str]) -> pa.Table:
    """Return facts, those that spell the path of one known document in another way under its id."""
    names = DocumentNames(known)
    canonical: dict[str, str] = {}
    for cited in facts["source_doc_id"].unique().to_pylist():
        if cited and cited not in known:
            exact = cited_id(cited, known)
            same = {exact} if exact else names.same_path(cited)
            if len(same) == 1:
                canonical[cited] = next(iter(same))
    if not canonical:
        return facts
    columns = {name: facts[name].to_pylist() for name in facts.schema.names}
    for row, cited in enumerate(columns["source_doc_id"]):
        if cited in canonical:
            place = columns["source_locator"][row]
            columns["source_doc_id"][row] = canonical[cited]
            if place.startswith(cited):
                columns["source_locator"][row] = canonical[cited] + place.removeprefix(cited)
    return table_of(columns, facts.schema)


def _stored_digest(con: duckdb.DuckDBPyConnection) -> tuple[int, str]:
    found = con.execute(_DIGEST).fetchall()[0]
    return int(found[0]), sha256(repr(tuple(int(part) for part in found)).encode()).hexdigest()


def facts_of(table: pa.Table) -> list[Fact]:
    """Return the rows of a table of facts as values."""
    return [Fact(**row) for row in table.select(_COLUMNS).to_pylist()]
