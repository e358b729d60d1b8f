"""The release, asked by people, programs and agents, each within an audience (SPEC 8; extras ``serve`` and ``mcp``).

The names are loaded when they are used: who reads a list of clients need not have a web server.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragspine_assets.service.clients import Client, Clients
    from ragspine_assets.service.http import make_app
    from ragspine_assets.service.releases import Releases

_HOME = {"Client": "clients", "Clients": "clients", "Releases": "releases", "make_app": "http"}

__all__ = ["Client", "Clients", "Releases", "make_app"]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"ragspine_assets.service.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
