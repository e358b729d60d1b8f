"""A published snapshot as the retriever of somebody's framework; each module needs that framework.

Belongs here: translation of names. What may leave, and in which order, is decided by the snapshot's own retriever.
"""
