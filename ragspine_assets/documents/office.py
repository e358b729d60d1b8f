"""Packed files (docx, pptx, xlsx, epub): whether they are safe to unpack (SPEC 1.6)."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from ragspine_assets.errors import RagspineError

MAX_ENTRIES = 20_000
"""Entries a package may have."""

_ROOM = 1 << 20
_LOCAL_HEADER = struct.Struct("<4s22xHH")


class UnsafePackage(RagspineError):
    """A packed file that must not be unpacked; the message is a reason for ``failed``."""


def check_package(data: bytes, max_unpacked_bytes: int) -> None:
    """Refuse a packed file that is damaged, encrypted, or unpacks to more than it may.

    The sizes its directory declares are added up first, then every entry is unpacked into nothing to see whether the
    directory tells the truth: parsers believe it, or do not look.

    Raises:
        UnsafePackage: with the reason.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            entries = package.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, UnicodeError, struct.error):
        raise UnsafePackage("it is damaged: its table of contents cannot be read; it may be cut off") from None
    if len(entries) > MAX_ENTRIES:
        raise UnsafePackage(f"it is a packed file of more than {MAX_ENTRIES} parts")
    if any(entry.flag_bits & 1 for entry in entries):
        raise UnsafePackage("it needs a password: store a copy without one")
    declared = sum(entry.file_size for entry in entries)
    if declared > max_unpacked_bytes:
        raise UnsafePackage(f"it unpacks to more than {max_unpacked_bytes} bytes")
    for entry in entries:
        if entry.compress_type == zipfile.ZIP_DEFLATED and _unpacked_size(data, entry) != entry.file_size:
            raise UnsafePackage("it is damaged: what it unpacks to is not what its table of contents says")


def _unpacked_size(data: bytes, entry: zipfile.ZipInfo) -> int:
    """Bytes an entry unpacks to, or some number behind its declared size if it is more; -1 if it is damaged."""
    header = data[entry.header_offset : entry.header_offset + _LOCAL_HEADER.size]
    if len(header) < _LOCAL_HEADER.size:
        return -1
    magic, name_size, extra_size = _LOCAL_HEADER.unpack(header)
    start = entry.header_offset + _LOCAL_HEADER.size + name_size + extra_size
    packed = memoryview(data)[start : start + entry.compress_size]
    if magic != b"PK\x03\x04" or len(packed) < entry.compress_size:
        return -1
    unpacker = zlib.decompressobj(-15)
    size = 0
    try:
        piece = unpacker.decompress(packed, _ROOM)
        while piece and size <= entry.file_size:
            size += len(piece)
            piece = unpacker.decompress(unpacker.unconsumed_tail, _ROOM)
    except zlib.error:
        return -1
    return size
