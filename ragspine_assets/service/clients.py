"""Who may ask: clients with a token, a highest label and filters of their own (SPEC 8.2)."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from ragspine_assets.errors import SettingError
from ragspine_assets.policy import Sensitivity
from ragspine_assets.policy.toml import read_toml
from ragspine_assets.retrieval.corpus import FILTER_KEYS
from ragspine_assets.retrieval.narrative_index import servable_label

_KEYS = ("token_sha256", "max_label", "filters", "metrics")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile("[0-9a-f]{64}")
_NO_FILTERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Client:
    """Somebody who may ask.

    Attributes:
        name: what the log calls it.
        max_label: highest label it is served.
        filters: values that fields of whatever it is served must have, whatever it asks for.
        token_sha256: sha256 of its token, in hexadecimal; ``''`` for one that needs none.
        metrics: whether it may read the metrics, which count what everybody asked.
    """

    name: str
    max_label: Sensitivity
    filters: Mapping[str, str] = field(default_factory=lambda: _NO_FILTERS)
    token_sha256: str = field(default="", repr=False)
    metrics: bool = False


LOCAL = Client("local", Sensitivity.INTERNAL, metrics=True)
"""Whoever asks on this machine, where no clients are named."""


class Clients:
    """The clients of a file, read again whenever it changes, so that a token that was taken out is refused at once.

    Args:
        path: the file, TOML: a table ``[clients.NAME]`` each, with ``token_sha256``, ``max_label`` and, where wanted,
            ``metrics`` and a table ``filters``. None for no file: then everybody is `LOCAL`.

    Raises:
        SettingError: the file is missing, wrong, or others may write it; the message names file and key.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = Path(path) if path else None
        self._state: tuple[int, ...] | None = None
        self._clients: tuple[Client, ...] = ()
        self.all()

    @property
    def named(self) -> bool:
        """Whether there is a file of clients."""
        return self._path is not None

    def all(self) -> tuple[Client, ...]:
        """Return the clients as the file has them now.

        Raises:
            SettingError: see the class.
        """
        if self._path is None:
            return (LOCAL,)
        try:
            found = self._path.stat()
        except OSError as error:
            raise SettingError(f"The clients' file {self._path} cannot be read: {error.strerror}.") from None
        state = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        if state != self._state:
            self._clients = load_clients(self._path)
            self._state = state
        return self._clients

    def find(self, token: str) -> Client | None:
        """Return whose token this is; None if it is nobody's.

        Raises:
            SettingError: the file was changed and is wrong now. Nobody is served then: who was taken out must not be.
        """
        clients = self.all()
        if self._path is None:
            return LOCAL
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        found = None
        for client in clients:
            # All of them are compared, each in the same time.
            if hmac.compare_digest(client.token_sha256, digest):
                found = client
        return found


def load_clients(path: Path) -> tuple[Client, ...]:
    """Read a file of clients, see `Clients`.

    Raises:
        SettingError: the file is missing, wrong, or others may write it.
    """
    _refuse_foreign_writers(path)
    try:
        body = read_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"The clients' file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingError(f"The clients' file {path} is not UTF-8.") from None
    except SettingError as fault:
        raise SettingError(f"The clients' file {path} is {fault}.") from None
    for key in body:
        if key != "clients":
            raise SettingError(f"{path}: unknown section {key!r}; clients are tables [clients.NAME].")
    tables = body.get("clients")
    if not isinstance(tables, dict) or not tables:
        raise SettingError(f"{path} names no client; each is a table [clients.NAME].")
    clients = tuple(_client(path, name, table) for name, table in tables.items())
    digests = [client.token_sha256 for client in clients]
    for client in clients:
        if digests.count(client.token_sha256) > 1:
            raise SettingError(f"{path}: [clients.{client.name}] has the token of another client.")
    return clients


def levels_of(clients: Sequence[Client]) -> tuple[Sensitivity, ...]:
    """Return the labels up to which some clients are served, ascending."""
    return tuple(sorted({client.max_label for client in clients}, key=lambda label: label.rank))


def wanted_levels(setting: str, clients: str) -> tuple[Sensitivity, ...]:
    """Return the labels up to which a release is to be indexed, besides its own.

    Args:
        setting: labels separated by commas; ``none`` for none; ``''`` for what the clients need.
        clients: the file of clients; ``''`` where there is none.

    Raises:
        SettingError: a label is none, or the file of clients may not be used.
    """
    if setting.strip().casefold() == "none":
        return ()
    if setting.strip():
        return tuple(servable_label(label.strip()) for label in setting.split(",") if label.strip())
    return levels_of(Clients(clients or None).all())


def new_client(name: str, max_label: str, token: str) -> str:
    """Return the lines of a clients' file that let somebody in.

    Raises:
        SettingError: the name or the label is none.
    """
    if not _NAME.fullmatch(name):
        raise SettingError(f"A client's name is made of letters, digits, '.', '_' and '-', at most 64; not {name!r}.")
    digest = hashlib.sha256(token.encode()).hexdigest()
    key = name if re.fullmatch("[A-Za-z0-9_-]+", name) else f'"{name}"'
    return f'[clients.{key}]\ntoken_sha256 = "{digest}"\nmax_label = "{servable_label(max_label)}"\n'


def _client(path: Path, name: str, table: object) -> Client:
    where = f"{path}: [clients.{name}]"
    if not _NAME.fullmatch(name):
        raise SettingError(f"{where}: a name is made of letters, digits, '.', '_' and '-', at most 64.")
    if not isinstance(table, dict):
        raise SettingError(f"{where} must be a table.")
    for key in table:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, 1)
            raise SettingError(
                f"{where}: unknown key {key!r}; {f'did you mean {near[0]}' if near else f'there are: {_listed(_KEYS)}'}."
            )
    digest, label = table.get("token_sha256", ""), table.get("max_label", "")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest.lower()):
        raise SettingError(f"{where}: token_sha256 must be the sha256 of the token, 64 hexadecimal digits.")
    try:
        max_label = servable_label(label if isinstance(label, str) else "")
    except SettingError:
        raise SettingError(f"{where}: max_label must be PUBLIC, INTERNAL or CONFIDENTIAL.") from None
    filters, metrics = table.get("filters", {}), table.get("metrics", False)
    if not isinstance(filters, dict) or not all(isinstance(value, str) and value for value in filters.values()):
        raise SettingError(f"{where}: filters must be a table of texts that are not empty.")
    for key in filters:
        if key not in FILTER_KEYS:
            raise SettingError(f"{where}: no such filter {key!r}; there are: {_listed(FILTER_KEYS)}.")
    if not isinstance(metrics, bool):
        raise SettingError(f"{where}: metrics must be true or false.")
    return Client(name, max_label, MappingProxyType(dict(filters)), digest.lower(), metrics)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _refuse_foreign_writers(path: Path) -> None:
    """Refuse a file that somebody else may write or put another in the place of."""
    try:
        places = [path.stat(), path.resolve().parent.stat()]
    except OSError as error:
        raise SettingError(f"The clients' file {path} cannot be read: {error.strerror}.") from None
    for place, what in zip(places, ("the clients' file", "the folder of the clients' file"), strict=True):
        others = stat.S_IWGRP | stat.S_IWOTH
        # In a folder with the sticky bit nobody replaces a file of another.
        if place.st_mode & others and not (stat.S_ISDIR(place.st_mode) and place.st_mode & stat.S_ISVTX):
            raise SettingError(f"{path}: others may write {what}. Take that right away: chmod go-w.")
        if place.st_uid not in {0, os.geteuid()}:
            raise SettingError(f"{path}: {what} belongs to somebody else, who could change it.")
