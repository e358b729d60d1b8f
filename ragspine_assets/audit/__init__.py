"""The proofs: each promise derived again from what is stored, by other code than the code that wrote it (SPEC 6.3)."""
