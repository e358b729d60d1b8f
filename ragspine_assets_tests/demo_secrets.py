"""What the RESTRICTED documents of the demo corpus say and nothing else does, for tests that look for leaks.

Every phrase is invented, stands in the text of its document as it is written here, and occurs nowhere else in the
project: wherever a leak test finds one outside the store, RESTRICTED text got out.
"""

from __future__ import annotations

RESTRICTED: dict[str, str] = {
    "board/minutes-2025-11.md": "exact row",
    "board/chair-note-succession.txt": "keyword",
    "hr/2026年薪酬方案.docx": "file name",
    "hr/salary-bands-FY2026.csv": "file name",
    "legal/disputes/settlement-position.eml": "glob row",
    "legal/disputes/transazione-guarnizioni.md": "glob row",
    "strategy/nota-impianto-blu.html": "keyword",
    "strategy/storage-pilot.md": "unknown label",
    "strategy/打合せメモ.txt": "keyword",
    "strategy/日本拡張計画.md": "front matter",
    "strategy/项目备忘.md": "keyword",
}
"""Every RESTRICTED document of the demo corpus, and what makes it so (SPEC 1.8)."""

SECRETS: list[tuple[str, str]] = [
    ("board/minutes-2025-11.md", "Basalt Heron"),
    ("board/minutes-2025-11.md", "EUR 73.45 million"),
    ("board/minutes-2025-11.md", "Jindallae Tidal"),
    ("board/minutes-2025-11.md", "Veltamara Korea"),
    ("board/chair-note-succession.txt", "Candidate Marlinspike"),
    ("board/chair-note-succession.txt", "EUR 186,400"),
    ("hr/2026年薪酬方案.docx", "灯塔名单"),
    ("hr/2026年薪酬方案.docx", "一亿零九百四十万元"),
    ("hr/salary-bands-FY2026.csv", "Amber Kestrel"),
    ("hr/salary-bands-FY2026.csv", "184590"),
    ("legal/disputes/settlement-position.eml", "Lyrebird Eight"),
    ("legal/disputes/settlement-position.eml", "GBP 845,500"),
    ("legal/disputes/transazione-guarnizioni.md", "Vetro Salmastro"),
    ("legal/disputes/transazione-guarnizioni.md", "1.755.000 euro"),
    ("strategy/nota-impianto-blu.html", "Delta Zafferano"),
    ("strategy/nota-impianto-blu.html", "Melograno Otto"),
    ("strategy/storage-pilot.md", "Thistle Cistern"),
    ("strategy/storage-pilot.md", "GBP 8.35 million"),
    ("strategy/打合せメモ.txt", "鯨見ヤード"),
    ("strategy/打合せメモ.txt", "四億一千三百万円"),
    ("strategy/日本拡張計画.md", "しずかな水門"),
    ("strategy/日本拡張計画.md", "二億八千六百万円"),
    ("strategy/项目备忘.md", "青瓷计划"),
    ("strategy/项目备忘.md", "望潮七号"),
]
"""Pairs of a RESTRICTED document and a phrase that only it holds."""

RESTRICTED_ONLY_CODES: tuple[str, ...] = ("VELTAMARA_KR", "SHARE_CAPITAL", "RELOCATION_COST")
"""Entities and metrics that only facts of RESTRICTED documents name (``data/facts``): no reader of the graph sees them."""
