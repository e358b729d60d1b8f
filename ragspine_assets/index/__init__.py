"""The index: tokens, postings, BM25 and the lexical index; it knows no other room (SPEC 4.2, 4.3)."""
