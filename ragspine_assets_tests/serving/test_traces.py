"""Pieces of closed texts in published bytes (SPEC 6.6)."""

import numpy as np
import pytest

from ragspine_assets.serving import traces


@pytest.mark.parametrize("at_once", [1, 7, traces.PIECE, 1 << 20])
def test_a_piece_is_found_wherever_blocks_begin(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    drawn = np.random.default_rng(4)
    data = drawn.integers(0, 4, 5 * traces.PIECE, dtype=np.uint8).tobytes()
    everywhere = traces._hashes(data)
    pieces = np.unique(np.concatenate([everywhere[::3], drawn.integers(0, 2**63, 50, dtype=np.uint64)]))
    monkeypatch.setattr(traces, "_AT_ONCE", at_once)
    assert traces._present(data, pieces).tolist() == np.intersect1d(everywhere, pieces).tolist()
    assert len(traces._present(data[: traces.PIECE], pieces)) == 1
    assert not len(traces._present(data[: traces.PIECE - 1], pieces))
