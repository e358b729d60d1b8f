"""Signatures of releases: Ed25519 over the bytes of ``manifest.json`` (SPEC 8.5).

The signature lies beside the manifest as OpenSSL writes it, so that others can verify it too. Keys are files that somebody
made; none is made here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragspine_assets.errors import SettingError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE = "manifest.json.sig"

TrustedKeys = Sequence[str | Path]
"""Files of public keys, PEM."""


def private_key(path: str | Path) -> Ed25519PrivateKey:
    """Read the key that signs: PEM without a passphrase, which nobody else may read.

    Raises:
        SettingError: it is missing, no such key, or others may read it.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _read(path, "signing key")
    if Path(path).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingError(f"The signing key {path} can be read by others. Take that right away: chmod 600.")
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingError(
            f"The signing key {path} is no Ed25519 key in PEM without a passphrase. `openssl genpkey -algorithm ed25519` makes one."
        )
    return key


def public_keys(paths: TrustedKeys) -> list[Ed25519PublicKey]:
    """Read keys that are trusted.

    Raises:
        SettingError: one is missing or no such key.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    keys = []
    for path in paths:
        try:
            key = load_pem_public_key(_read(path, "trusted key"))
        except ValueError:
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise SettingError(
                f"The trusted key {path} is no public Ed25519 key in PEM. `openssl pkey -in KEY -pubout` writes that of a key."
            )
        keys.append(key)
    return keys


def sign(folder: Path, manifest: bytes, key: Ed25519PrivateKey) -> None:
    """Write the signature of a manifest, unless it is there."""
    if _is_signed(folder, manifest, [key.public_key()]):
        return
    temporary = folder / f".{SIGNATURE}"
    with temporary.open("wb") as file:
        file.write(key.sign(manifest))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / SIGNATURE)


def is_signed(folder: Path, manifest: bytes, keys: TrustedKeys) -> bool:
    """Tell whether one of some keys signed a manifest.

    Raises:
        SettingError: a key is missing or none.
    """
    return _is_signed(folder, manifest, public_keys(keys))


def _is_signed(folder: Path, manifest: bytes, keys: Sequence[Ed25519PublicKey]) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        signature = (folder / SIGNATURE).read_bytes()
    except OSError:
        return False
    for key in keys:
        try:
            key.verify(signature, manifest)
        except InvalidSignature:
            continue
        return True
    return False


def _read(path: str | Path, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingError(f"The {what} {path} cannot be read: {error.strerror}.") from None
