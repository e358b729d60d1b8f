"""Arrow without pandas, and pandas all the same for who wants it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def said_by(code: str) -> str:
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


ASKED = "import pyarrow as pa; pa.array(['a', None]); print('pandas' in sys.modules)"


def test_a_list_becomes_an_array_without_pandas() -> None:
    alone = "import sys; from ragspine_assets.documents.arrow import leave_pandas_alone; leave_pandas_alone();"
    assert said_by(alone + ASKED) == "False"
    assert said_by("import sys;" + ASKED) == "True"


def test_the_processes_that_run_jobs_do_without_pandas_until_facts_are_read() -> None:
    assert said_by("import sys, ragspine_assets.definitions;" + ASKED) == "False"


def test_facts_are_read_as_ever(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(
        "metric_code,entity,period_type,period,value,unit,source_doc_id,source_locator\n"
        "REV,HOM,FY,2024,1.5,EUR,a.txt,a.txt#para1\nREV,ENT,FY,2025,2,EUR,a.txt,a.txt#para2\n"
    )
    code = f"""
import pathlib, sys
import pyarrow as pa
from ragspine_assets.graph import read_facts
from ragspine_assets.documents.arrow import leave_pandas_alone
if len(sys.argv) == 1:
    leave_pandas_alone()
folder = pathlib.Path({str(tmp_path)!r})
rows = read_facts(folder / "f.csv")
frame = rows.to_pandas()
frame["entity"] = frame["entity"].astype("category")
frame.to_parquet(folder / "g.parquet")
print(rows.to_pylist(), read_facts(folder / "g.parquet").to_pylist(), pa.array(frame["unit"]).to_pylist())
"""
    assert said_by(code) == said_by(code.replace("len(sys.argv) == 1", "False"))
