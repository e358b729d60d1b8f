"""The HTTP service: the same answers as the library, within an audience, of the current release (SPEC 8)."""

import json
import time
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragspine_assets.retrieval import build_context
from ragspine_assets.serving.publish import withdraw_documents_from_snapshots
from ragspine_assets_tests.service.conftest import Served

WORDS = ["harbour", "crane", "Monday", "tariffs", "ships", "pilot", "the", "ninety million", "港", "", "Zanzibarquux"]


def as_(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def test_search_gives_what_the_library_gives_byte_for_byte(local: Served) -> None:
    snapshot = local.port.open().up_to("INTERNAL")
    retriever = snapshot.retriever()

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join) | st.text(max_size=20),
        st.sampled_from([{}, {"entity": "HARB"}, {"topic": "rules", "language": ""}, {"period": "FY2024"}]),
        st.integers(1, 12),
    )
    def same(query: str, filters: dict[str, str], top_k: int) -> None:
        asked = {"query": query, "filters": filters, "top_k": top_k}
        found = local.http.post("/search", json=asked).json()
        expected = retriever.retrieve(query, filters=filters, top_k=top_k)
        for snippet in found["snippets"]:
            assert snapshot.chunk(snippet.pop("citation")) is not None
        assert json.dumps(found["snippets"]) == json.dumps(expected)
        context = local.http.post("/context", json=asked).json()
        assert context["context"] == build_context(expected)
        assert [source["number"] for source in context["sources"]] == list(range(1, len(expected) + 1))

    same()


def test_a_context_keeps_its_budget_and_names_only_what_it_shows(local: Served) -> None:
    asked = {"query": "harbour crane", "budget": 300}
    found = local.http.post("/context", json=asked).json()
    assert len(found["context"]) <= 300
    assert len(found["sources"]) == found["context"].count("source: ")
    refused = local.http.post("/context", json={**asked, "budget": 3})
    assert (refused.status_code, "allow at least" in refused.json()["error"]) == (422, True)
    assert local.http.post("/context", json={"query": "unheard"}).json()["context"] == "not found"


def test_an_answer_tells_what_a_word_was_corrected_to_and_explains_it(local: Served) -> None:
    told = local.http.post("/search", json={"query": "crnae", "explain": True}).json()
    assert told["corrected"] == {"crnae": ["crane"]}
    for snippet in told["snippets"]:
        assert sum(term["score"] for term in snippet["explain"]["terms"]) == pytest.approx(snippet["scores"]["bm25"])
    assert local.http.post("/context", json={"query": "crnae"}).json()["corrected"] == told["corrected"]
    assert "corrected" not in local.http.post("/search", json={"query": "crane"}).json()


def test_explain_adds_up_to_the_score(local: Served) -> None:
    found = local.http.post("/search", json={"query": "crane winter winter", "explain": True}).json()["snippets"]
    assert found
    for snippet in found:
        total = sum(term["score"] for term in snippet["explain"]["terms"])
        assert total == pytest.approx(snippet["scores"]["bm25"])


def test_passages_documents_and_the_graph_are_shown_by_name(local: Served) -> None:
    citation = local.http.post("/search", json={"query": "winter"}).json()["snippets"][0]["citation"]
    passage = local.http.get(f"/chunks/{quote(citation)}").json()
    assert (passage["citation"], passage["doc_id"]) == (citation, "cranes.md")
    document = local.http.get("/documents/cranes.md").json()
    (version,) = document["versions"]
    assert [one["citation"] for one in version["citations"]][: version["passages"]].count(citation) == 1
    graph = local.http.get("/graph/entity/HARB?depth=1").json()
    assert {node["id"] for node in graph["nodes"]} >= {"HARB", "cranes.md"}
    assert all(edge["evidence"] and edge["verified"] for edge in graph["edges"])
    assert "numbers.txt" not in json.dumps(graph)


@pytest.mark.parametrize(
    ("path", "sees"),
    [
        ("/chunks/numbers.txt%40v1%23c0", {"board"}),
        ("/documents/numbers.txt", {"board"}),
        ("/documents/cranes.md", {"board", "staff"}),
        ("/graph/doc/cranes.md", {"board", "staff"}),
        ("/documents/harbour.txt", {"board", "staff", "web"}),
        ("/documents/board/plan.txt", set()),
    ],
)
def test_what_is_above_an_audience_is_not_there(served: Served, path: str, sees: set[str]) -> None:
    for name in ("web", "staff", "board"):
        found = served.http.get(path, headers=as_(name))
        assert found.status_code == (200 if name in sees else 404), name
        if name not in sees:
            missing = served.http.get("/documents/never-heard-of", headers=as_(name))
            assert (
                found.status_code,
                "in the current release" in found.json()["error"] or "node" in found.json()["error"],
            ) == (
                missing.status_code,
                True,
            )


def test_each_audience_is_answered_from_statistics_of_its_own(served: Served) -> None:
    scores = {}
    for name in ("web", "staff", "board"):
        found = served.http.post("/search", json={"query": "harbour opens", "top_k": 1}, headers=as_(name)).json()
        own = served.port.open().up_to({"web": "PUBLIC", "staff": "INTERNAL", "board": "CONFIDENTIAL"}[name])
        assert found["snapshot"] == own.manifest.name
        scores[name] = found["snippets"][0]["scores"]["bm25"]
    assert len(set(scores.values())) == 3
    names = {json.dumps(served.http.get("/healthz", headers=as_(name)).json()["counts"]) for name in scores}
    assert len(names) == 3


def test_a_token_is_needed_and_nothing_a_request_says_raises_an_audience(served: Served) -> None:
    asked = {"query": "tariffs"}
    assert served.http.post("/search", json=asked).status_code == 401
    assert served.http.post("/search", json=asked, headers=as_("nobody")).status_code == 401
    for extra in ({"max_label": "CONFIDENTIAL"}, {"filters": {"sensitivity": "CONFIDENTIAL"}}):
        assert served.http.post("/search", json={**asked, **extra}, headers=as_("web")).status_code == 422
    assert served.http.post("/search?max_label=CONFIDENTIAL", json=asked, headers=as_("web")).json()["snippets"] == []
    assert served.http.get("/healthz").json() == {"status": "ok"}
    assert served.http.get("/metrics", headers=as_("board")).status_code == 403


def test_a_newer_release_takes_over_and_none_of_the_requests_fails(local: Served) -> None:
    ask = lambda: local.http.post("/search", json={"query": "lighthouse"})  # noqa: E731
    assert ask().json()["snippets"] == []
    local.port.pipeline.write({"lighthouse.txt": "The lighthouse is painted in May.\n"})
    local.port.run(levels=["INTERNAL"])
    deadline = time.monotonic() + 10
    while not (found := ask()).json().get("snippets"):
        assert found.status_code == 200
        assert time.monotonic() < deadline
    assert found.json()["snippets"][0]["doc_id"] == "lighthouse.txt"


def test_a_withdrawn_release_ends_serving_at_the_next_request(local: Served) -> None:
    assert local.http.post("/search", json={"query": "harbour"}).status_code == 200
    withdraw_documents_from_snapshots(local.port.root, ["harbour.txt"])
    for response in (local.http.post("/search", json={"query": "harbour"}), local.http.get("/healthz")):
        assert response.status_code == 503
        assert "withdrawn" in response.json()["error"]


def test_only_a_release_that_was_withdrawn_is_not_used_while_another_is_opened(local: Served) -> None:
    assert local.http.post("/search", json={"query": "harbour"}).json()["snippets"]
    local.port.label("harbour.txt", "RESTRICTED")
    local.port.run(levels=["INTERNAL"])
    assert "harbour.txt" not in local.http.post("/search", json={"query": "harbour", "top_k": 50}).text


def test_a_damaged_release_is_refused_by_a_sentence_without_names_of_this_machine(local: Served) -> None:
    folder = local.port.open().path
    (folder / "chunks.arrow").write_bytes(b"")
    found = local.http.post("/search", json={"query": "harbour"})
    assert (found.status_code, str(folder) in found.text) == (503, False)


def test_the_log_says_who_was_served_what_and_no_word_of_it(served: Served) -> None:
    served.http.post("/search", json={"query": "greased Monday"}, headers=as_("staff"))
    served.http.post("/context", json={"query": "greased Monday"}, headers=as_("board"))
    served.http.get("/documents/secret-name-of-nothing", headers=as_("web"))
    served.http.get("/nowhere/secret-name")
    lines = served.lines()
    assert [(line["client"], line["route"], line["status"]) for line in lines] == [
        ("staff", "/search", 200),
        ("board", "/context", 200),
        ("web", "/documents", 404),
        ("", "other", 404),
    ]
    assert lines[0]["citations"] == ["cranes.md@v1#c0"]
    assert lines[0]["query"] == lines[1]["query"] != ""
    (file,) = served.log.glob("*.jsonl")
    assert oct(file.stat().st_mode)[-3:] == "600"
    for word in ("greased", "Monday", "secret-name"):
        assert word not in file.read_text()


@pytest.mark.parametrize("error", [RuntimeError("Zanzibarquux"), SystemExit("Zanzibarquux")])
def test_whatever_an_answer_raises_is_told_by_its_type_and_the_next_is_answered(
    local: Served, error: BaseException, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def panics(*_: object, **__: object) -> object:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr("ragspine_assets.service.view.View.search", panics)
        found = local.http.post("/search", json={"query": "crane"})
    assert (found.status_code, "Zanzibarquux" in found.text) == (500, False)
    output = "".join(capfd.readouterr())
    assert type(error).__name__ in output
    assert "Zanzibarquux" not in output
    assert local.http.post("/search", json={"query": "crane"}).status_code == 200


def test_without_a_line_in_the_log_nothing_is_served(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError("no space left")

    monkeypatch.setattr("ragspine_assets.service.request_log.os.write", full)
    found = served.http.post("/search", json={"query": "greased"}, headers=as_("staff"))
    assert (found.status_code, "crane" in found.text) == (503, False)
