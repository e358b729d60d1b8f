import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.documents.period import period_from_filename


@pytest.mark.parametrize(
    ("name", "period"),
    [
        ("FY2024.pdf", "FY2024"),
        ("FY2024H1.pdf", "2024H1"),
        ("FY2024 Q3.pdf", "2024Q3"),
        ("Q3 FY2024.pdf", "2024Q3"),
        ("h2_fy-2024.pdf", "2024H2"),
        ("fy 2024 h2.pdf", "2024H2"),
        ("report fy-2024 final.md", "FY2024"),
        ("2024fy.md", "FY2024"),
        ("ＦＹ２０２４.md", "FY2024"),
        ("2024H1.txt", "2024H1"),
        ("2024_H2.txt", "2024H2"),
        ("h1 2024.docx", "2024H1"),
        ("a/b/Q3-2025.csv", "2025Q3"),
        ("plan.2025.q3.v2.md", "2025Q3"),
        ("営業2024H1報告.txt", "2024H1"),
        ("FY2024_fy-2024.md", "FY2024"),
    ],
)
def test_an_explicit_form_is_the_period(name, period):
    assert period_from_filename(name) == period


@pytest.mark.parametrize(
    "name",
    [
        "2024.txt", "report-2024.pdf", "2024-01-31.md", "20240101.txt", "FY24.pdf", "Q3.md", "2024Q5.md", "2024H3.md",
        "2024H10.txt", "FY20245.md", "report2024H1.txt", "2024H1x.txt", "12024H1.md", "FY1824.md", "", "notes",
    ],
)  # fmt: skip
def test_anything_else_is_none(name):
    assert period_from_filename(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "FY2023-FY2024.md",
        "2024H1 2024H2.txt",
        "2024Q1-Q2.md",
        "Q1-2024-Q2.md",
        "FY2024_2024H1.pdf",
        "Q3 FY2024 H1.pdf",
        "FY2024 Q3-Q4.pdf",
        "FY2023-24 Q1.pdf",
        "FY2023-24.pdf",
        "FY2023-2024.pdf",
    ],
)
def test_two_different_periods_or_a_range_are_none(name):
    assert period_from_filename(name) == ""


def test_only_the_last_part_of_a_path_is_read():
    assert period_from_filename("FY2023/notes.md") == ""
    assert period_from_filename("FY2023/FY2024.md") == "FY2024"


@settings(max_examples=300, deadline=None, database=None)
@given(
    st.integers(1900, 2099),
    st.sampled_from(["H1", "H2", "Q1", "Q2", "Q3", "Q4", "FY"]),
    st.sampled_from(["", " ", "-", "_", "."]),
    st.booleans(),
    st.sampled_from([str.upper, str.lower]),
)
def test_order_separator_and_case_do_not_matter(year, part, separator, year_first, case):
    name = case(separator.join([str(year), part] if year_first else [part, str(year)]))
    expected = f"FY{year}" if part == "FY" else f"{year}{part}"
    assert period_from_filename(f"report_{name}.pdf") == expected
