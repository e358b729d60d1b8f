"""Pieces of closed texts in published bytes (SPEC 6.6)."""

import numpy as np
import pytest

from ragspine_assets.serving import leaks


@pytest.mark.parametrize("at_once", [1, 7, leaks.PIECE, 1 << 20])
def test_a_piece_is_found_wherever_blocks_begin(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    drawn = np.random.default_rng(4)
    data = drawn.integers(0, 4, 5 * leaks.PIECE, dtype=np.uint8).tobytes()
    everywhere = leaks._hashes(data)
    pieces = np.unique(np.concatenate([everywhere[::3], drawn.integers(0, 2**63, 50, dtype=np.uint64)]))
    monkeypatch.setattr(leaks, "_AT_ONCE", at_once)
    assert leaks._present(data, pieces).tolist() == np.intersect1d(everywhere, pieces).tolist()
    assert len(leaks._present(data[: leaks.PIECE], pieces)) == 1
    assert not len(leaks._present(data[: leaks.PIECE - 1], pieces))
