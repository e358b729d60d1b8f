"""The graph as files that other tools open: GraphML, and JSON-LD with PROV-O (SPEC 5.8).

Both are made from the same filtered view as every read: controlled edges, and what models assert only if asked. The same
graph gives the same bytes. Each edge carries all its evidence, a model's edge both markers too.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from urllib.parse import quote

from ragspine_assets.graph.graph_store import DuckDBGraphStore
from ragspine_assets.graph.values import (
    DECISION,
    EDGE_META_DERIVED,
    EDGE_META_VERIFIED,
    PROFILE_SOURCE,
    Evidence,
    GraphEdge,
    GraphNode,
    Subgraph,
    is_unverified,
)

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKERS = (EDGE_META_DERIVED, EDGE_META_VERIFIED)
_PREFIX = "urn:ragspine:"
_CONTEXT: Mapping[str, object] = {
    "prov": "http://www.w3.org/ns/prov#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "rs": _PREFIX + "terms:",
    "label": "rdfs:label",
    "source": {"@id": "rdf:subject", "@type": "@id"},
    "target": {"@id": "rdf:object", "@type": "@id"},
    "derivedFrom": {"@id": "prov:wasDerivedFrom", "@type": "@id"},
    "attributedTo": {"@id": "prov:wasAttributedTo", "@type": "@id"},
    "generatedAt": {"@id": "prov:generatedAtTime", "@type": "xsd:dateTime"},
    "partOf": {"@id": "rs:partOf", "@type": "@id"},
}


def export_graphml(graph: DuckDBGraphStore, *, include_model_derived: bool = False) -> bytes:
    """Return the graph as GraphML, in UTF-8.

    Nodes are called `type:id`; an edge's attribute `evidence` is a JSON list.
    """
    import networkx as nx

    view, evidence = _view(graph, include_model_derived)
    out = nx.MultiDiGraph()
    for node in view.nodes:
        attributes = {"type": node.type, "id": node.id, "label": node.label or node.id, **node.metadata}
        out.add_node(_name(node.type, node.id), **{name: _xml(value) for name, value in attributes.items()})
    for edge, found in zip(view.edges, evidence, strict=True):
        out.add_edge(
            _name(edge.src_type, edge.src),
            _name(edge.dst_type, edge.dst),
            key=_edge_id(edge),
            type=_xml(edge.type),
            **{name: _xml(value) for name, value in edge.metadata.items()},
            evidence=_xml(json.dumps([_stated(piece) for piece in found], ensure_ascii=False, sort_keys=True)),
        )
    buffer = io.BytesIO()
    nx.write_graphml(out, buffer, encoding="utf-8", named_key_ids=True, edge_id_from_attribute=None)
    return buffer.getvalue()


def export_jsonld(graph: DuckDBGraphStore, *, include_model_derived: bool = False) -> bytes:
    """Return the graph as JSON-LD with terms of PROV-O, in UTF-8.

    An edge is an `rdf:Statement` and a `prov:Entity`: derived from places in documents, attributed to the profile, the
    rules, a model or a reviewer, and generated when the model answered or the reviewer decided, where that is known.
    """
    view, evidence = _view(graph, include_model_derived)
    decisions = _decisions(graph)
    things: dict[str, dict[str, object]] = {}
    for node in view.nodes:
        things[_node_iri(node.type, node.id)] = _node_entry(node)
    for edge, found in zip(view.edges, evidence, strict=True):
        agents, times = set(), set()
        for piece in found:
            agent, when = _agent(piece, decisions.get(piece.source_locator.rpartition(f"#{DECISION}")[2]))
            things.setdefault(str(agent["@id"]), agent)
            agents.add(str(agent["@id"]))
            if when:
                times.add(when)
            place, document = _place_entries(piece)
            things.setdefault(str(document["@id"]), document)
            things.setdefault(str(place["@id"]), place)
        things[_PREFIX + "edge:" + _edge_id(edge)] = {
            "@id": _PREFIX + "edge:" + _edge_id(edge),
            "@type": ["rdf:Statement", "prov:Entity"],
            "source": _node_iri(edge.src_type, edge.src),
            "target": _node_iri(edge.dst_type, edge.dst),
            "rdf:predicate": {"@id": _PREFIX + "relation:" + quote(edge.type, safe="")},
            "rs:relation": edge.type,
            **{f"rs:{name}": edge.metadata[name] for name in _MARKERS if name in edge.metadata},
            "derivedFrom": sorted({_place_iri(piece) for piece in found}),
            "attributedTo": sorted(agents),
            **({"generatedAt": sorted(times)} if times else {}),
        }
    document = {"@context": _CONTEXT, "@graph": [things[key] for key in sorted(things)]}
    return (json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode("utf-8", "replace")


def _view(graph: DuckDBGraphStore, models: bool) -> tuple[Subgraph, list[list[Evidence]]]:
    edges = graph.edges(include_model_derived=models)
    return Subgraph(tuple(graph.nodes(include_model_derived=models)), tuple(edges)), graph.evidence_of(edges)


def _name(kind: str, node_id: str) -> str:
    return _xml(f"{kind}:{node_id}")


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


def _edge_id(edge: GraphEdge) -> str:
    key = (edge.src_type, edge.src, edge.dst_type, edge.dst, edge.type, str(is_unverified(edge)))
    return sha256("\x1f".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _stated(piece: Evidence) -> dict[str, str | int]:
    return {name: value for name, value in vars(piece).items() if value not in ("", 0)}


def _iri(kind: str, *parts: str) -> str:
    return _PREFIX + ":".join((kind, *(quote(part, safe="", errors="replace") for part in parts)))


def _node_iri(kind: str, node_id: str) -> str:
    return _iri("node", kind, node_id)


def _node_entry(node: GraphNode) -> dict[str, object]:
    named = {f"rs:{name}": value for name, value in node.metadata.items() if name != "source_doc_id"}
    return {
        "@id": _node_iri(node.type, node.id),
        "@type": ["prov:Entity", "rs:" + quote(node.type, safe="")],
        "label": node.label or node.id,
        "rs:name": node.id,
        "derivedFrom": _iri("source", node.metadata.get("source_doc_id", "")),
        **named,
    }


def _place_iri(piece: Evidence) -> str:
    return _iri("place", piece.source_doc_id, piece.source_locator, f"v{piece.version}")


def _place_entries(piece: Evidence) -> tuple[dict[str, object], dict[str, object]]:
    source = _iri("source", piece.source_doc_id)
    place = {
        "@id": _place_iri(piece),
        "@type": ["prov:Entity", "rs:Place"],
        "rs:locator": piece.source_locator,
        "rs:version": piece.version,
        "partOf": source,
        **({"rs:chunk": piece.chunk_id} if piece.chunk_id else {}),
    }
    return place, {"@id": source, "@type": ["prov:Entity", "rs:Source"], "label": piece.source_doc_id}


def _agent(piece: Evidence, decision: Sequence[str] | None) -> tuple[dict[str, object], str]:
    """Return who is behind a piece of evidence, and when."""
    if piece.kind == "model":
        name = piece.model or "unnamed model"
        entry = {"@id": _iri("model", name), "@type": ["prov:SoftwareAgent", "rs:LanguageModel"], "label": name}
        return entry, piece.asserted_at
    if piece.kind == "review" and decision:
        who, when = decision
        # What a person wrote as a date is a literal of its own; only the full form is one for PROV.
        full = when if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", when) else ""
        return {"@id": _iri("person", who), "@type": ["prov:Person"], "label": who}, full
    name = "company profile" if piece.source_doc_id == PROFILE_SOURCE else "rules"
    return {"@id": _iri("rules", name), "@type": ["prov:SoftwareAgent"], "label": name}, ""


def _decisions(graph: DuckDBGraphStore) -> dict[str, tuple[str, str]]:
    """Return who decided and when, by the hash of the edge."""
    return {row: (who, when) for row, who, when in graph.accepted_decisions()}
