"""How Arrow is used where it is all that is used."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa


def leave_pandas_alone() -> None:
    """Spare this process the import of pandas for lists that become Arrow arrays; for the main module of a process.

    pyarrow asks of each list whether it is a series of pandas, and imports pandas for the first, which takes longer than
    many a run's own work. It asks once whether there is pandas; here the answer is no. Whoever imports pandas can use it,
    and tables become frames as ever; only an array of a series is made as one of any other sequence.
    """
    hook = _WithoutPandas()
    sys.meta_path.insert(0, hook)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hook)


class _WithoutPandas(MetaPathFinder):
    """An import hook under which pandas is not installed."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Refuse pandas and leave every other module to those who know it."""
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)
