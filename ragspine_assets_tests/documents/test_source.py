import os
import shutil
import socket
import time
import unicodedata
from random import Random

import pytest

from ragspine_assets.documents.source import (
    OTHER_TABLE,
    SourceError,
    SourceFile,
    SourceReader,
    UnsafeFileError,
    open_inside,
    scan_source,
)

IS_ROOT = os.geteuid() == 0


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    return folder


def put(root, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode("utf-8", "surrogateescape"))


def ids(listing) -> list[str]:
    return [file.doc_id for file in listing.files]


def test_documents_are_listed_recursively_in_sorted_order(root):
    names = ["b.txt", "a/z.md", "a.txt", "a/b/c.PDF", "Z.txt", "ä.txt", "报告.md", "a-b.txt"]
    put(root, *names)
    listing = scan_source(root)
    assert ids(listing) == sorted(names)
    assert {file.suffix for file in listing.files} == {".txt", ".md", ".pdf"}
    assert listing.refused == ()


def test_the_order_does_not_depend_on_the_order_of_the_file_system(root, tmp_path):
    names = [f"{a}/{b}.txt" for a in "abc" for b in "xyz"]
    listings = []
    for seed in range(4):
        folder = tmp_path / str(seed)
        shuffled = names[:]
        Random(seed).shuffle(shuffled)
        put(folder, *shuffled)
        listings.append(ids(scan_source(folder)))
    assert all(listing == sorted(names) for listing in listings)


def test_one_name_in_two_folders_is_two_documents(root):
    put(root, "a/notes.txt", "b/notes.txt")
    assert ids(scan_source(root)) == ["a/notes.txt", "b/notes.txt"]


def test_hidden_files_lock_files_and_other_types_are_passed_over_and_counted(root):
    put(root, ".x.txt", ".git/a.txt", "~$a.docx", "a.exe", "noext", "a.txt", "metadata.csv", "sub/metadata.csv")
    listing = scan_source(root)
    assert ids(listing) == ["a.txt"]
    assert dict(listing.refused) == {"sub/metadata.csv": OTHER_TABLE}
    assert listing.passed_over == {"hidden": 2, "office lock file": 1, "unsupported type": 2}


def test_a_symlink_that_leaves_the_root_is_refused(root, tmp_path):
    put(tmp_path, "outside/secret.txt")
    (root / "link.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "up.txt").symlink_to("../outside/secret.txt")
    listing = scan_source(root)
    assert ids(listing) == []
    assert {reason for _, reason in listing.refused} == {"a symlink that leaves the source"}
    assert [doc_id for doc_id, _ in listing.refused] == ["folder", "link.txt", "up.txt"]


def test_a_folder_beside_the_root_with_the_same_beginning_is_outside(root, tmp_path):
    put(tmp_path, "raw-secret/x.txt")
    (root / "x.txt").symlink_to(tmp_path / "raw-secret" / "x.txt")
    assert scan_source(root).refused == (("x.txt", "a symlink that leaves the source"),)


def test_a_symlink_that_loops_is_refused_and_each_real_file_is_listed_once(root):
    put(root, "d/x.txt")
    (root / "d" / "loop").symlink_to(root / "d")
    (root / "d" / "top").symlink_to(root)
    (root / "self.txt").symlink_to("self.txt")
    listing = scan_source(root)
    assert ids(listing) == ["d/x.txt"]
    assert listing.refused == tuple((name, "a symlink that loops") for name in ("d/loop", "d/top", "self.txt"))


def test_a_second_name_for_what_is_listed_is_counted_and_not_listed(root):
    put(root, "real/x.txt")
    (root / "a.txt").symlink_to("real/x.txt")
    (root / "again").symlink_to("real")
    listing = scan_source(root)
    assert ids(listing) == ["real/x.txt"]
    assert listing.refused == ()
    assert listing.passed_over == {"symlink to what is listed": 2}


def test_a_symlink_to_what_is_not_listed_is_refused(root):
    put(root, ".hidden/x.txt", "y.bin")
    (root / "a.txt").symlink_to(".hidden/x.txt")
    (root / "b.txt").symlink_to("y.bin")
    (root / "c").symlink_to(".hidden")
    (root / "d.txt").symlink_to("nowhere")
    listing = scan_source(root)
    assert ids(listing) == []
    assert [doc_id for doc_id, _ in listing.refused] == ["a.txt", "b.txt", "c", "d.txt"]


def test_of_two_spellings_of_one_id_the_first_wins_and_the_other_is_refused(root):
    composed, decomposed = (unicodedata.normalize(form, "é.txt") for form in ("NFC", "NFD"))
    put(root, composed, decomposed)
    if len(os.listdir(root)) < 2:
        pytest.skip("this file system normalises names")
    listing = scan_source(root)
    assert ids(listing) == [composed]
    assert listing.files[0].path == decomposed
    assert listing.refused == ((composed, "another file has the same id after NFC; rename one of them"),)


def test_a_name_that_is_not_utf8_is_refused_with_an_escaped_id(root):
    with open(os.fsencode(root) + b"/r\xff\xe9 sum\xc3\xa9.txt", "wb"):
        pass
    os.mkdir(os.fsencode(root) + b"/d\xfe")
    with open(os.fsencode(root) + b"/d\xfe/x.txt", "wb"):
        pass
    listing = scan_source(root)
    assert ids(listing) == []
    assert [doc_id for doc_id, _ in listing.refused] == ["d%FE/x.txt", "r%FF%E9 sum%C3%A9.txt"]


@pytest.mark.parametrize(
    "name", ["a\nb.txt", 'a"b,c.txt', "a#b@v1.txt", "a%41.txt", "x" * 251 + ".txt", " .txt", "-rf.txt"]
)
def test_an_odd_but_legal_name_is_a_document(root, name):
    put(root, name)
    listing = scan_source(root)
    assert ids(listing) == [name]
    assert open_inside(root, listing.files[0]) == name.encode()


def test_what_is_no_regular_file_is_refused_and_never_opened(root):
    os.mkfifo(root / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(root)
            server.bind("s.txt")
        finally:
            os.fchdir(here)
            os.close(here)
        listing = scan_source(root)
    assert ids(listing) == []
    assert listing.refused == (
        ("pipe.txt", "is not a regular file but a FIFO"),
        ("s.txt", "is not a regular file but a socket"),
    )


@pytest.mark.skipif(IS_ROOT, reason="root reads every folder")
def test_documents_below_an_unreadable_folder_have_not_been_removed(root):
    put(root, "open/x.txt", "shut/y.txt")
    (root / "shut").chmod(0)
    try:
        listing = scan_source(root)
    finally:
        (root / "shut").chmod(0o700)
    _assert_unreadable(listing)


def test_a_folder_that_cannot_be_listed_is_reported_with_all_below_it(root, monkeypatch):
    put(root, "open/x.txt", "shut/y.txt")
    real = os.scandir

    def scandir(path):
        if str(path).rstrip("/").endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("ragspine_assets.documents.source.os.scandir", scandir)
    _assert_unreadable(scan_source(root))


def _assert_unreadable(listing) -> None:
    assert ids(listing) == ["open/x.txt"]
    assert listing.unreadable == ("shut/",)
    assert listing.is_unreadable("shut/y.txt")
    assert listing.is_unreadable("shut/deep/er.txt")
    assert not listing.is_unreadable("shutter.txt")
    assert not listing.is_unreadable("open/gone.txt")
    assert listing.refused[0][0] == "shut"
    assert "permission" in listing.refused[0][1]


def test_a_missing_root_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(SourceError, match=r"does not exist; create it, mount it, or name another one with SOURCE="):
        scan_source(tmp_path / "none")


def test_a_root_that_is_a_file_is_an_error(tmp_path):
    put(tmp_path, "f.txt")
    with pytest.raises(SourceError, match="is not a folder"):
        scan_source(tmp_path / "f.txt")


def test_a_root_reached_through_a_symlink_is_the_folder_behind_it(root, tmp_path):
    put(root, "a.txt")
    (tmp_path / "way").symlink_to(root)
    listing = scan_source(tmp_path / "way")
    assert ids(listing) == ["a.txt"]
    assert listing.root == root.resolve()


def test_a_listed_file_is_read_whole(root):
    put(root, "a/b/c.txt")
    listing = scan_source(root)
    assert open_inside(listing.root, listing.files[0]) == b"a/b/c.txt"
    (root / "empty.txt").touch()
    assert open_inside(root, scan_source(root).files[1]) == b""


def listed(root, name: str) -> SourceFile:
    return next(file for file in scan_source(root).files if file.doc_id == name)


def test_a_file_that_vanished_is_refused(root):
    put(root, "a.txt")
    file = listed(root, "a.txt")
    (root / "a.txt").unlink()
    with pytest.raises(UnsafeFileError, match="vanished"):
        open_inside(root, file)


def test_a_file_replaced_by_a_symlink_is_not_read(root, tmp_path):
    put(tmp_path, "secret.txt")
    put(root, "a.txt")
    file = listed(root, "a.txt")
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(UnsafeFileError, match="replaced by a symlink") as caught:
        open_inside(root, file)
    assert "a.txt" not in str(caught.value)
    assert (root / file.path).read_bytes() == b"secret.txt", "a plain open would have read it"


def test_a_folder_replaced_by_a_symlink_is_not_followed(root, tmp_path):
    put(tmp_path, "outside/a.txt")
    put(root, "d/a.txt")
    file = listed(root, "d/a.txt")
    (root / "d").rename(root / "e")
    (root / "d").symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafeFileError, match="replaced by a symlink"):
        open_inside(root, file)
    assert (root / file.path).read_bytes() == b"outside/a.txt", "a plain open would have read it"


def test_a_file_replaced_by_a_fifo_does_not_hang(root):
    put(root, "a.txt")
    file = listed(root, "a.txt")
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")
    with pytest.raises(UnsafeFileError, match="FIFO"):
        open_inside(root, file)


def test_a_file_over_the_bound_is_refused_even_if_it_grew_after_listing(root):
    put(root, "a.txt")
    file = listed(root, "a.txt")
    assert open_inside(root, file, max_bytes=5) == b"a.txt"
    with (root / "a.txt").open("ab") as handle:
        handle.write(b"+")
    with pytest.raises(UnsafeFileError, match="more than 5 bytes"):
        open_inside(root, file, max_bytes=5)


def test_a_reader_goes_from_folder_to_folder_and_on_after_a_refused_file(root):
    put(root, "a.txt", "b/a.txt", "b/b.txt", "b/c/a.txt", "d/a.txt")
    files = scan_source(root).files
    (root / "b/b.txt").unlink()
    shutil.rmtree(root / "d")
    read = {}
    with SourceReader(root) as reader:
        for file in (*files, *files):
            try:
                read[file.doc_id] = reader.read(file)
            except UnsafeFileError as error:
                read[file.doc_id] = str(error)
    vanished = "the file vanished after it was listed"
    assert read == {
        "a.txt": b"a.txt", "b/a.txt": b"b/a.txt", "b/b.txt": vanished, "b/c/a.txt": b"b/c/a.txt", "d/a.txt": vanished
    }  # fmt: skip


def test_reading_leaves_no_file_open(root):
    put(root, "a/b.txt")
    file = listed(root, "a/b.txt")
    before = len(os.listdir("/proc/self/fd"))
    for bound in (0, 100):
        for _ in range(5):
            try:
                open_inside(root, file, max_bytes=bound)
            except UnsafeFileError:
                continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_listing_takes_time_in_proportion_to_the_files(root):
    for folder in range(20):
        put(root, *(f"{folder}/{number}.txt" for number in range(100)))
    start = time.process_time()
    assert len(scan_source(root).files) == 2000
    assert time.process_time() - start < 0.5
