"""How a document is named outside the store when its own name may be a secret (SPEC 6.1)."""

from __future__ import annotations

import hashlib

_DIGITS = 12


def document_reference(doc_id: str, key: bytes) -> str:
    """Return ``doc:`` and 12 hex digits of a keyed hash of a document's id.

    Without the key, which lives in the store, a reference can neither be read nor be found by trying names.

    Args:
        doc_id: the document's id.
        key: at least 16 secret bytes; one per store.

    Raises:
        ValueError: if the key is shorter than 16 bytes, since guessed names could then be confirmed.
    """
    if len(key) < 16:
        message = "the key of document references must have at least 16 bytes"
        raise ValueError(message)
    # A longer key than BLAKE2b takes is hashed first, as HMAC does.
    bounded = key if len(key) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(key).digest()
    digest = hashlib.blake2b(doc_id.encode("utf-8", "surrogatepass"), key=bounded, digest_size=16)
    return "doc:" + digest.hexdigest()[:_DIGITS]
