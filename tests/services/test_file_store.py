"""Shared files: what is there, and that nothing else is ever to be had."""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
def store(roots: dict[str, Path]) -> FileStore:
    return FileStore(roots, frozenset({"other"}), 1000)


def read(store: FileStore, url: object) -> bytes:
    with store.open(url) as file:
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
def test_what_is_shared_can_be_read(store: FileStore, url: str, content: bytes) -> None:
    assert read(store, url) == content


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
def test_no_url_leads_out_of_the_roots(store: FileStore, url: object) -> None:
    with pytest.raises(FileUnavailable):
        read(store, url)
    with pytest.raises(FileUnavailable):
        store.details(url)
    with pytest.raises(FileUnavailable):
        store.put(url, 0, b"x", 1, hashlib.sha256(b"x").hexdigest())


@pytest.mark.parametrize("url", [u for u in ESCAPES if u not in ("nf://", "nf://sub")], ids=repr)
def test_no_folder_url_leads_out_of_the_roots(store: FileStore, url: object) -> None:
    for look in (store.names, store.walk):
        with pytest.raises(FileUnavailable):
            look(url)


STEPS = st.sampled_from(
    ["..", ".", "", "sub", "a.txt", "link-out", "dir-out", "loop", "outside", "other", "shared",
     "shared-too", "secret", "%2e%2e", "\\..", "..\\", "/", "~", "．．"]  # noqa: RUF001
)  # fmt: skip


@given(st.lists(STEPS, max_size=8))
def test_no_combination_of_steps_leads_out_of_the_roots(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    store = _shelf_once(tmp_path_factory)
    try:
        found = read(store, "nf://" + "/".join(steps))
    except FileUnavailable:
        return
    assert found != SECRET


_ONCE: list[FileStore] = []


def _shelf_once(factory: pytest.TempPathFactory) -> FileStore:
    if not _ONCE:
        base = factory.mktemp("store")
        made: Callable[[Path], dict[str, Path]] = roots.__wrapped__  # type: ignore[attr-defined]
        _ONCE.append(FileStore(made(base)))
    return _ONCE[0]


@given(st.text(max_size=40))
def test_any_text_is_a_location_or_refused(text: str) -> None:
    try:
        place = read_url("nf://" + text, {"": Path("/x")})
    except FileUnavailable:
        return
    assert ".." not in place.steps


def test_a_link_put_in_place_after_the_check_is_not_followed(
    store: FileStore, roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch
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
        read(store, "nf://a.txt")


def test_folders_are_listed_and_walked(store: FileStore) -> None:
    assert store.names("nf://sub") == ["__pycache__", "b.txt", "ü mlaut.txt"]
    assert {"a.txt", ".hidden", "sub", "other"} <= set(store.names("nf://"))
    assert store.walk("nf://") == ["nf://a.txt", "nf://sub/b.txt", "nf://sub/ü mlaut.txt"]
    assert store.walk("nf://other") == ["nf://other/x"]
    with pytest.raises(FileUnavailable, match="Directory Not Found"):
        store.names("nf://a.txt")


def test_details_have_both_digests_and_follow_a_change(
    store: FileStore, roots: dict[str, Path]
) -> None:
    found = store.details("nf://a.txt")
    assert found["md5hash"] == hashlib.md5(b"hello").hexdigest()
    assert found["sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert (found["size_bytes"], found["exists"]) == (5, True)
    (roots[""] / "a.txt").write_bytes(b"changed")
    assert store.details("nf://a.txt")["sha256"] == hashlib.sha256(b"changed").hexdigest()


def test_without_a_root_nothing_is_shared(roots: dict[str, Path]) -> None:
    with pytest.raises(FileUnavailable, match="shares no files"):
        FileStore({}).names("nf://")
    named = FileStore({"other": roots["other"]})
    assert named.names("nf://other") == ["x"]
    with pytest.raises(FileUnavailable):
        named.open("nf://a.txt")


# --- putting ----------------------------------------------------------------------------------


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_last_piece_publishes_a_file(store: FileStore, roots: dict[str, Path]) -> None:
    target, whole = roots["other"] / "new" / "f", b"first second"
    about = (len(whole), sha(whole))
    assert store.put("nf://other/new/f", 0, b"first ", *about) == {"have": 6, "is_done": False}
    assert not target.exists()
    assert store.status("nf://other/new/f", *about) == {"have": 6, "is_done": False}
    assert store.put("nf://other/new/f", 0, b"first ", *about)["have"] == 6
    assert store.put("nf://other/new/f", 6, b"second", *about)["is_done"]
    assert target.read_bytes() == whole
    assert os.listdir(target.parent) == ["f"]


def test_a_piece_at_a_wrong_offset_is_refused_with_the_right_one(
    store: FileStore, roots: dict[str, Path]
) -> None:
    with pytest.raises(FileUnavailable, match="size or digest is wrong"):
        store.put("nf://other/f", 0, b"wrong", 5, sha(b"right"))
    assert store.status("nf://other/f", 5, sha(b"right"))["have"] == 0
    assert os.listdir(roots["other"]) == ["x"]


@pytest.mark.parametrize(
    ("url", "size", "words"),
    [
        ("nf://a.txt", 1, "not writable"),
        ("nf://other", 1, "needs a name"),
        ("nf://other/.profile", 1, "leading dot"),
        ("nf://other/f", 1001, "from 0 to 1000 bytes"),
        ("nf://other/f", -1, "from 0 to 1000 bytes"),
    ],
)
def test_a_put_outside_the_limits_is_refused(
    store: FileStore, url: str, size: int, words: str
) -> None:
    with pytest.raises(FileUnavailable, match=words):
        store.put(url, 0, b"x", size, sha(b"x"))


def test_nothing_is_put_through_a_link(store: FileStore, roots: dict[str, Path]) -> None:
    (roots["other"] / "out").symlink_to("..")
    (roots["other"] / "l").symlink_to("../outside")
    for url in ("nf://other/out/outside", "nf://other/l"):
        with pytest.raises(FileUnavailable):
            store.put(url, 0, b"x", 1, sha(b"x"))
    assert (roots[""].parent / "outside").read_bytes() == SECRET


def test_only_files_in_writable_roots_may_be_removed(
    store: FileStore, roots: dict[str, Path]
) -> None:
    (roots["other"] / "r").write_bytes(b"x")
    store.remove("nf://other/r")
    assert not (roots["other"] / "r").exists()
    with pytest.raises(FileUnavailable, match="file not found"):
        store.remove("nf://other/r")
    (roots[""] / "r").write_bytes(b"x")
    with pytest.raises(FileUnavailable, match="not writable"):
        store.remove("nf://r")
    (roots["other"] / "l").symlink_to("../outside")
    for url in ("nf://other/l", "nf://other/../shared/r", "nf://other/.hidden", "nf://other"):
        with pytest.raises(FileUnavailable):
            store.remove(url)
    assert (roots[""] / "r").exists()


def test_a_file_that_is_there_already_is_not_put_again(
    store: FileStore, roots: dict[str, Path]
) -> None:
    about = (5, sha(b"right"))
    store.put("nf://other/f", 0, b"right", *about)
    os.utime(roots["other"] / "f", (1, 1))
    assert store.status("nf://other/f", *about) == {"have": 5, "is_done": True}
    # It counts as uploaded now, or it would be removed while it is in use.
    assert (roots["other"] / "f").stat().st_mtime > 1
    assert not store.status("nf://other/f", 5, sha(b"other"))["is_done"]


def test_files_are_removed_so_many_days_after_their_upload(roots: dict[str, Path]) -> None:
    now = [1_000_000.0]
    store = FileStore(roots, frozenset({"other"}), 100, {"other": 2.0}, lambda: now[0])
    other, day = roots["other"], 86_400.0
    ages = {"old": 3.0, "deep/old": 3.0, ".part": 3.0, "young": 1.0}
    for name, days in ages.items():
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_bytes(b"x")
        os.utime(other / name, (now[0] - days * day,) * 2)
    os.utime(other / "x", (now[0],) * 2)
    (roots[""] / "elsewhere").write_bytes(b"x")
    os.utime(roots[""] / "elsewhere", (1, 1))
    (other / "link").symlink_to(roots[""] / "elsewhere")
    store.put("nf://other/new", 0, b"x", 1, sha(b"x"))
    assert sorted(os.listdir(other)) == ["deep", "link", "new", "x", "young"]
    assert os.listdir(other / "deep") == []
    assert (roots[""] / "elsewhere").exists()


def test_parts_of_dead_uploads_are_removed_after_a_day(roots: dict[str, Path]) -> None:
    now = [1_000_000.0]
    store = FileStore(roots, frozenset({"other"}), 100, clock=lambda: now[0])
    parts = {root: roots[root] / f".f.{'a' * 16}.part" for root in ("other", "")}
    for path in (*parts.values(), roots["other"] / ".kept.part", roots["other"] / "old"):
        path.write_bytes(b"x")
        os.utime(path, (now[0] - 86_401,) * 2)
    young = roots["other"] / f".young.{'b' * 16}.part"
    young.write_bytes(b"x")
    os.utime(young, (now[0] - 86_399,) * 2)
    store.put("nf://other/new", 0, b"x", 2, sha(b"xy"))
    assert not parts["other"].exists()
    # Not ours: a root that is not writable, other names. A young part may still be continued.
    assert parts[""].exists()
    assert (roots["other"] / ".kept.part").exists()
    assert (roots["other"] / "old").exists()
    assert young.exists()


def test_an_upload_that_goes_on_keeps_its_old_part(roots: dict[str, Path]) -> None:
    now = [1_000_000.0]
    store = FileStore(roots, frozenset({"other"}), 100, clock=lambda: now[0])
    about = (2, sha(b"xy"))
    store.put("nf://other/new", 0, b"x", *about)
    (part,) = roots["other"].glob(".new.*.part")
    os.utime(part, (now[0] - 10 * 86_400,) * 2)
    now[0] += 4000
    assert store.put("nf://other/new", 1, b"y", *about)["is_done"]


def test_the_same_file_can_be_put_by_several_at_the_same_time(
    store: FileStore, roots: dict[str, Path]
) -> None:
    whole = bytes(range(250)) * 4
    about = (len(whole), sha(whole))

    def upload(_: int) -> None:
        have, is_done = 0, False
        while not is_done:
            status = store.put("nf://other/same", have, whole[have : have + 10], *about)
            have, is_done = int(str(status["have"])), bool(status["is_done"])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(upload, range(8)))
    assert (roots["other"] / "same").read_bytes() == whole
    assert sorted(os.listdir(roots["other"])) == ["same", "x"]
