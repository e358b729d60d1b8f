"""The page for people: from this process alone, nothing inline, no token for it and one for what it asks (SPEC 8.4)."""

import re

import pytest

from ragspine_assets.service import page

from .conftest import Served


@pytest.mark.parametrize("path", ["/", "/static/page.js", "/static/page.css", "/static/icon.svg"])
def test_the_page_comes_with_a_policy_that_lets_in_nothing_from_elsewhere(local: Served, path: str) -> None:
    answer = local.http.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_nothing_of_the_page_is_inline_and_nothing_is_fetched_elsewhere() -> None:
    texts = {name: (page._FOLDER / name).read_text() for name in ("index.html", "page.js", "page.css")}
    assert not re.search(r"<script(?! src=)|<style|\sstyle=|\son\w+=", texts["index.html"])
    for text in texts.values():
        assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|Storage", texts["page.js"]
    )


def test_a_token_is_for_answers_and_not_for_the_page(served: Served) -> None:
    assert served.http.get("/").status_code == 200
    assert served.http.get("/static/page.js").status_code == 200
    assert served.http.post("/search", json={"query": "crane"}).status_code == 401
