"""Releases: signed, compared, rolled back; never to what must not be served (SPEC 8.5)."""

import subprocess
from pathlib import Path

import pytest

from ragspine_assets.audit.serving import audit_published_files
from ragspine_assets.errors import SettingError
from ragspine_assets.serving import Snapshot, SnapshotError
from ragspine_assets.serving.kept_releases import kept_releases, roll_back
from ragspine_assets.serving.snapshot_files import MANIFEST, snapshot_folders
from ragspine_assets_tests.serving.conftest import Port


def keys(folder: Path, name: str) -> tuple[Path, Path]:
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    private.chmod(0o600)
    return private, public


def test_only_what_a_trusted_key_signed_is_opened(published: Port, tmp_path: Path) -> None:
    private, public = keys(tmp_path, "ours")
    _, other = keys(tmp_path, "other")
    with pytest.raises(SnapshotError, match="not signed"):
        Snapshot.open(published.root, trusted_keys=[public])
    assert not published.publish(signing_key=private).published
    assert len(Snapshot.open(published.root, trusted_keys=[other, public])) == len(published.open())
    with pytest.raises(SnapshotError, match="not signed"):
        Snapshot.open(published.root, trusted_keys=[other])
    (folder,) = snapshot_folders(published.root)
    verify = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", folder / MANIFEST]
    subprocess.run([*verify, "-sigfile", folder / f"{MANIFEST}.sig"], check=True, capture_output=True)
    path = folder / "chunks.arrow"
    data = bytearray(path.read_bytes())
    data[data.index(b"greased")] ^= 1
    path.write_bytes(data)
    with pytest.raises(SnapshotError, match=r"chunks\.arrow"):
        Snapshot.open(published.root, verify=False, trusted_keys=[public])


def test_a_signing_key_that_others_may_read_is_refused(published: Port, tmp_path: Path) -> None:
    private, _ = keys(tmp_path, "ours")
    private.chmod(0o644)
    with pytest.raises(SettingError, match="chmod 600"):
        published.publish(signing_key=private)


def test_a_release_is_rolled_back_and_stays_so_until_other_content_is_there(published: Port) -> None:
    first = published.open().manifest.name
    published.pipeline.write({"numbers.txt": "Tariffs rise by three percent.\n"})
    published.run()
    second = published.open().manifest.name
    kept = {one.name: one for one in kept_releases(published.root)}
    assert kept[second].current
    assert kept[first].changes is not None
    assert list(kept[first].changes.changed) == ["numbers.txt"]
    assert roll_back(published.pipeline.store, published.root).name == first
    report = published.publish()
    assert (report.published, report.held_back, published.open().manifest.name) == (False, second, first)
    result = audit_published_files(published.pipeline.store, published.root)
    assert (result.passed, bool(result.warnings)) == (True, True)
    published.pipeline.write({"numbers.txt": "Tariffs rise by four percent.\n"})
    published.run()
    assert published.open().manifest.name not in {first, second}
    assert audit_published_files(published.pipeline.store, published.root).warnings == []


def test_nothing_is_rolled_back_to_where_a_label_was_raised_since(published: Port) -> None:
    published.pipeline.write({"numbers.txt": "Tariffs rise by three percent.\n"})
    published.run()
    published.label("harbour.txt", "RESTRICTED")
    published.pipeline.run()
    before = published.open().manifest.name
    with pytest.raises(SnapshotError, match="raised since"):
        roll_back(published.pipeline.store, published.root)
    assert published.open().manifest.name == before
