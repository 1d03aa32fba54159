"""Shared files: what is there, and that nothing else is ever to be had."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.file_store import FileStore, FileUnavailable, read_url

SECRET = b"not for sharing"


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, Path]:
    """A root, another one by name, and things outside that must never be had."""
    shared, other = tmp_path / "shared", tmp_path / "other"
    (shared / "sub" / "__pycache__").mkdir(parents=True)
    other.mkdir()
    (tmp_path / "outside").write_bytes(SECRET)
    (tmp_path / "shared-too").mkdir()
    (tmp_path / "shared-too" / "secret").write_bytes(SECRET)
    (shared / "a.txt").write_bytes(b"hello")
    (shared / "sub" / "b.txt").write_bytes(b"b")
    (shared / "sub" / "ü mlaut.txt").write_bytes(b"u")
    (shared / ".hidden").write_bytes(b"h")
    (shared / "sub" / "__pycache__" / "c.pyc").write_bytes(b"c")
    (shared / "link-in").symlink_to("sub/b.txt")
    (shared / "link-out").symlink_to("../outside")
    (shared / "link-abs").symlink_to(tmp_path / "outside")
    (shared / "dir-out").symlink_to("..")
    (shared / "loop").symlink_to("loop")
    os.mkfifo(shared / "pipe")
    (other / "x").write_bytes(b"x")
    return {"": shared, "other": other}


@pytest.fixture
def shelf(roots: dict[str, Path]) -> FileStore:
    return FileStore(roots, frozenset({"other"}), 1000)


def read(shelf: FileStore, url: object) -> bytes:
    with shelf.open(url) as file:
        return file.read()


@pytest.mark.parametrize(
    ("url", "content"),
    [
        ("nf://a.txt", b"hello"),
        ("nf:///a.txt", b"hello"),
        ("nf://./sub//b.txt", b"b"),
        ("nf://sub\\b.txt", b"b"),
        ("nf://sub/ü mlaut.txt", b"u"),
        ("nf://link-in", b"b"),
        ("nf://.hidden", b"h"),
        ("nf://other/x", b"x"),
    ],
)
def test_what_is_shared_can_be_read(shelf: FileStore, url: str, content: bytes) -> None:
    assert read(shelf, url) == content


#: Ways out that were tried on others.
ESCAPES = [
    "nf://../outside",
    "nf://sub/../../outside",
    "nf://sub/../../../etc/passwd",
    "nf://..\\outside",
    "nf://sub\\..\\..\\outside",
    "nf:////../outside",
    "nf:///etc/passwd",
    "nf://" + "/" * 3 + "etc/passwd",
    "nf://./../outside",
    "nf://.../outside",
    "nf://.. /outside",
    "nf:// ../outside",
    "nf://%2e%2e/outside",
    "nf://%2e%2e%2foutside",
    "nf://..%2foutside",
    "nf://..%5coutside",
    "nf://%252e%252e/outside",
    "nf://..%c0%afoutside",
    "nf://\uff0e\uff0e/outside",
    "nf://\u2024\u2024/outside",
    "nf://..\u2215outside",
    "nf://..\uff0foutside",
    "nf://a.txt\x00/../../outside",
    "nf://\x00",
    "nf://../outside\n",
    "nf://link-out",
    "nf://link-abs",
    "nf://dir-out/outside",
    "nf://dir-out/shared-too/secret",
    "nf://sub/../link-out",
    "nf://../shared-too/secret",
    "nf://loop",
    "nf://pipe",
    "nf://sub",
    "nf://",
    "nf://other/../outside",
    "nf://other/../shared/a.txt",
    "nf://~/outside",
    "nf://$HOME/x",
    "nf://C:/windows/win.ini",
    "nf://a.txt::$DATA",
    "nf://con",
    "nf://" + "a/" * 3000 + "x",
    "nf://" + "a" * 300,
    "file:///etc/passwd",
    "http://a.txt",
    "NF://a.txt",
    "a.txt",
    "",
    None,
    7,
    ["nf://a.txt"],
    b"nf://a.txt",
]


@pytest.mark.parametrize("url", ESCAPES, ids=repr)
def test_nothing_leads_out(shelf: FileStore, url: object) -> None:
    with pytest.raises(FileUnavailable):
        read(shelf, url)
    with pytest.raises(FileUnavailable):
        shelf.details(url)
    with pytest.raises(FileUnavailable):
        shelf.put(url, 0, b"x", 1, hashlib.sha256(b"x").hexdigest())


@pytest.mark.parametrize("url", [u for u in ESCAPES if u not in ("nf://", "nf://sub")], ids=repr)
def test_no_folder_leads_out_either(shelf: FileStore, url: object) -> None:
    for look in (shelf.names, shelf.walk):
        with pytest.raises(FileUnavailable):
            look(url)


STEPS = st.sampled_from(
    ["..", ".", "", "sub", "a.txt", "link-out", "dir-out", "loop", "outside", "other", "shared",
     "shared-too", "secret", "%2e%2e", "\\..", "..\\", "/", "~", "．．"]  # noqa: RUF001
)  # fmt: skip


@given(st.lists(STEPS, max_size=8))
def test_no_combination_of_steps_leads_out(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    shelf = _shelf_once(tmp_path_factory)
    try:
        found = read(shelf, "nf://" + "/".join(steps))
    except FileUnavailable:
        return
    assert found != SECRET


_ONCE: list[FileStore] = []


def _shelf_once(factory: pytest.TempPathFactory) -> FileStore:
    if not _ONCE:
        base = factory.mktemp("shelf")
        made: Callable[[Path], dict[str, Path]] = roots.__wrapped__  # type: ignore[attr-defined]
        _ONCE.append(FileStore(made(base)))
    return _ONCE[0]


@given(st.text(max_size=40))
def test_any_text_is_a_place_or_no_file(text: str) -> None:
    try:
        place = read_url("nf://" + text, {"": Path("/x")})
    except FileUnavailable:
        return
    assert ".." not in place.steps


def test_a_link_put_in_place_after_the_check_leads_nowhere(
    shelf: FileStore, roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = roots[""] / "a.txt"
    real = os.path.realpath

    def swap(path: Path) -> str:
        found = real(path)
        if victim.exists() and not victim.is_symlink():
            victim.unlink()
            victim.symlink_to("../outside")
        return found

    monkeypatch.setattr("dragoman.services.file_store.os.path.realpath", swap)
    with pytest.raises(FileUnavailable):
        read(shelf, "nf://a.txt")


def test_folders_are_listed_and_walked(shelf: FileStore) -> None:
    assert shelf.names("nf://sub") == ["__pycache__", "b.txt", "ü mlaut.txt"]
    assert {"a.txt", ".hidden", "sub", "other"} <= set(shelf.names("nf://"))
    assert shelf.walk("nf://") == ["nf://a.txt", "nf://sub/b.txt", "nf://sub/ü mlaut.txt"]
    assert shelf.walk("nf://other") == ["nf://other/x"]
    with pytest.raises(FileUnavailable, match="Directory Not Found"):
        shelf.names("nf://a.txt")


def test_details_have_both_digests_and_follow_a_change(
    shelf: FileStore, roots: dict[str, Path]
) -> None:
    found = shelf.details("nf://a.txt")
    assert found["md5hash"] == hashlib.md5(b"hello").hexdigest()
    assert found["sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert (found["size_bytes"], found["exists"]) == (5, True)
    (roots[""] / "a.txt").write_bytes(b"changed")
    assert shelf.details("nf://a.txt")["sha256"] == hashlib.sha256(b"changed").hexdigest()


def test_without_a_root_nothing_is_shared(roots: dict[str, Path]) -> None:
    with pytest.raises(FileUnavailable, match="no files are shared"):
        FileStore({}).names("nf://")
    named = FileStore({"other": roots["other"]})
    assert named.names("nf://other") == ["x"]
    with pytest.raises(FileUnavailable):
        named.open("nf://a.txt")


# --- putting ----------------------------------------------------------------------------------


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_appears_with_its_last_piece(shelf: FileStore, roots: dict[str, Path]) -> None:
    target, whole = roots["other"] / "new" / "f", b"first second"
    about = (len(whole), sha(whole))
    assert shelf.put("nf://other/new/f", 0, b"first ", *about) == {"have": 6, "is_done": False}
    assert not target.exists()
    assert shelf.have("nf://other/new/f", *about) == 6
    assert shelf.put("nf://other/new/f", 0, b"first ", *about)["have"] == 6
    assert shelf.put("nf://other/new/f", 6, b"second", *about)["is_done"]
    assert target.read_bytes() == whole
    assert os.listdir(target.parent) == ["f"]


def test_a_piece_that_does_not_fit_begins_anew(shelf: FileStore, roots: dict[str, Path]) -> None:
    with pytest.raises(FileUnavailable, match="not what was announced"):
        shelf.put("nf://other/f", 0, b"wrong", 5, sha(b"right"))
    assert shelf.have("nf://other/f", 5, sha(b"right")) == 0
    assert os.listdir(roots["other"]) == ["x"]


@pytest.mark.parametrize(
    ("url", "size", "words"),
    [
        ("nf://a.txt", 1, "may not be put there"),
        ("nf://other", 1, "needs a name"),
        ("nf://other/.profile", 1, "not hidden"),
        ("nf://other/f", 1001, "at most 1000"),
        ("nf://other/f", -1, "at most 1000"),
    ],
)
def test_what_may_not_be_put_is_refused(shelf: FileStore, url: str, size: int, words: str) -> None:
    with pytest.raises(FileUnavailable, match=words):
        shelf.put(url, 0, b"x", size, sha(b"x"))


def test_nothing_is_put_through_a_link(shelf: FileStore, roots: dict[str, Path]) -> None:
    (roots["other"] / "out").symlink_to("..")
    (roots["other"] / "l").symlink_to("../outside")
    for url in ("nf://other/out/outside", "nf://other/l"):
        with pytest.raises(FileUnavailable):
            shelf.put(url, 0, b"x", 1, sha(b"x"))
    assert (roots[""].parent / "outside").read_bytes() == SECRET


def test_only_what_may_be_put_may_be_removed(shelf: FileStore, roots: dict[str, Path]) -> None:
    (roots["other"] / "r").write_bytes(b"x")
    shelf.remove("nf://other/r")
    assert not (roots["other"] / "r").exists()
    with pytest.raises(FileUnavailable, match="file not found"):
        shelf.remove("nf://other/r")
    (roots[""] / "r").write_bytes(b"x")
    with pytest.raises(FileUnavailable, match="may not be put there"):
        shelf.remove("nf://r")
    (roots["other"] / "l").symlink_to("../outside")
    for url in ("nf://other/l", "nf://other/../shared/r", "nf://other/.hidden", "nf://other"):
        with pytest.raises(FileUnavailable):
            shelf.remove(url)
    assert (roots[""] / "r").exists()
