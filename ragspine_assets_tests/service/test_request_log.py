"""Who was served a passage is told by the log alone (SPEC 8.4)."""

from pathlib import Path

from ragspine_assets.service.request_log import Entry, RequestLog, served_to


def test_who_was_served_a_passage_or_a_document_is_told(tmp_path: Path) -> None:
    log = RequestLog(tmp_path)
    log.write(Entry("web", "/search", 200, 1.0, 2, "r", ["a/b.md@v1#c0", "a/b.md@v1#c10"]))
    log.write(Entry("staff", "/context", 200, 1.0, 1, "r", ["a/b.md@v2#c0"], ["a/b.md@v2#para1-9"], "what"))
    log.write(Entry("web", "/search", 200, 1.0, 1, "r", ["b.md@v1#c0"]))
    (day,) = tmp_path.glob("*.jsonl")
    with day.open("a") as file:
        file.write('{"client": "broken off')

    def clients(name: str) -> dict[str, int]:
        return {one.client: one.times for one in served_to(tmp_path, name)}

    assert clients("a/b.md@v1#c0") == {"web": 1}
    assert clients("a/b.md#c0") == {"staff": 1, "web": 1}
    assert clients("a/b.md") == {"staff": 1, "web": 1}
    assert clients("a/b.md@v1#c1") == {}
    assert clients("b.md") == {"web": 1}
