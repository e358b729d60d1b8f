"""Natural order is one order, in Python and in SQL."""

import random
from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st

from ragspine_assets.natural_order import natural_key, natural_key_sql
from ragspine_assets.store.database import memory_database

NAMES = st.lists(
    st.text(st.sampled_from("ab0129#-. ²③٣\x01\x02é中𝟙"), max_size=8) | st.text("0123456789", min_size=19, max_size=24),
    max_size=12,
    unique=True,
)


@given(NAMES)
@settings(max_examples=60, deadline=None)
def test_python_and_sql_sort_alike(names: list[str]) -> None:
    with closing(memory_database(threads=1)) as connection:
        found = connection.execute(
            f"SELECT name FROM (SELECT unnest($names) AS name) ORDER BY {natural_key_sql('name')}", {"names": names}
        ).fetchall()
    assert [name for (name,) in found] == sorted(names, key=natural_key)


def test_digits_of_other_scripts_and_in_superscript_are_characters() -> None:
    names = ["Annex 5#para2", "Annex 5²#para1", "Annex 5²#para10", "Annex 5③", "Annex 5٣", "Annex 10"]
    shuffled = random.Random(1).sample(names, len(names))
    found = sorted(shuffled, key=natural_key)
    assert found[-1] == "Annex 10"
    assert found.index("Annex 5²#para1") + 1 == found.index("Annex 5²#para10")


def test_numbers_of_any_length_are_numbers() -> None:
    long = "c1" + "0" * 30
    assert sorted([long, "c9", "c" + "9" * 30, "c010"], key=natural_key) == ["c9", "c010", "c" + "9" * 30, long]
