"""Settings of the retrieval tests."""

from __future__ import annotations

from hypothesis import settings

# The first example of a test may load a language model, and the machine may be busy: time is measured elsewhere.
settings.register_profile("retrieval", deadline=None)
settings.load_profile("retrieval")
