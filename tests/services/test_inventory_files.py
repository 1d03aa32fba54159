"""Inventory on disk: NorFab's form, YAML and TOML, and errors that name file and line."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.inventory_files import (
    BrokenInventory,
    has_changed,
    merge,
    read_resources,
    read_source,
)


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_yaml", ".yaml").replace("_toml", ".toml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


NORFAB = """
broker:
  endpoint: "tcp://127.0.0.1:5555"
  shared_key: "5z1:yW}]n?UXhGmz+5CeHN1>:S9k!eCh6JyIhJqO"
workers:
  nornir-*:
    - nornir/common.yaml
  nornir-worker-1:
    - nornir/worker-1.yaml
    - {num: 1}
topology:
  broker: true
"""


def norfab_folder(folder: Path) -> Path:
    return write(
        folder,
        inventory_yaml=NORFAB,
        nornir__common_yaml="service: nornir\nlevel: {{ env.LEVEL }}\nlist: [1, 2]\n",
        **{"nornir__worker-1_yaml": "list: [2, 3]\nhosts: {a: {port: 22}}\n"},
    )


def test_a_norfab_folder_is_read_as_it_is(tmp_path: Path) -> None:
    source = read_source(norfab_folder(tmp_path), {"LEVEL": "7"})
    assert source.workers == (
        ("nornir-*", {"service": "nornir", "level": 7, "list": [1, 2]}),
        ("nornir-worker-1", {"list": [2, 3], "hosts": {"a": {"port": 22}}}),
        ("nornir-worker-1", {"num": 1}),
    )
    assert source.others["topology"] == {"broker": True}
    assert read_source(tmp_path / "inventory.yaml", {"LEVEL": "7"}).workers == source.workers


def test_norfab_itself_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from norfab.core.inventory import WorkersInventory

    monkeypatch.setenv("LEVEL", "7")
    source = read_source(norfab_folder(tmp_path))
    merged: dict[str, Any] = {}
    for _, said in source.workers:
        merged = merge(merged, said)
    index = {"nornir-*": ["nornir/common.yaml"],
             "nornir-worker-1": ["nornir/worker-1.yaml", {"num": 1}]}  # fmt: skip
    assert merged == WorkersInventory(str(tmp_path), index)["nornir-worker-1"]


def test_toml_is_equivalent_and_a_folder_without_an_index_is_read_in_order(tmp_path: Path) -> None:
    write(
        tmp_path,
        b_toml='[workers."probe-*"]\nlevel = 2\n[broker]\nname = "x"\n',
        a_yaml="workers: {'probe-*': {level: 1, extra: true}}\n",
    )
    source = read_source(tmp_path)
    assert source.workers == (("probe-*", {"level": 2, "extra": True}),)
    assert source.others == {"broker": {"name": "x"}}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"inventory_yaml": "workers:\n  a: [\n"}, r"inventory\.yaml, line 3: "),
        ({"inventory_yaml": "a: 1\nb: {{ env.X\n"}, r"inventory\.yaml, line 2: "),
        ({"inventory_yaml": "a: 1\n\nb: {{ 1 / 0 }}\n"}, r"inventory\.yaml, line 3: "),
        ({"inventory_toml": "a = 1\nb = \n"}, r"inventory\.toml: .*line 2"),
        ({"inventory_yaml": "- 1\n"}, r"inventory\.yaml: the file must be an object"),
        ({"inventory_yaml": "workers: [1]\n"}, "workers must be an object"),
        ({"inventory_yaml": "workers: {a: [7]}\n"}, "a: a file or an object, not int"),
        ({"inventory_yaml": "a: !!python/object:os.system {}\n"}, r"inventory\.yaml, line 1: "),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, files: dict[str, str], words: str
) -> None:
    with pytest.raises(BrokenInventory, match=words):
        read_source(write(tmp_path, **files))


def test_a_worker_s_broken_file_concerns_that_worker_only(tmp_path: Path) -> None:
    index = "workers: {a: [x.yaml, {k: 1}], b*: [y.yaml], c: [{k: 2}]}\n"
    source = read_source(write(tmp_path, inventory_yaml=index, y_yaml="a: [\n"))
    assert [pattern for pattern, _ in source.workers] == ["a", "c"]
    reasons = dict(source.broken)
    assert set(reasons) == {"a", "b*"}
    assert "x.yaml: No such file or directory (named for a)" in reasons["a"]
    assert "y.yaml, line 2" in reasons["b*"]
    assert not has_changed(source)
    write(tmp_path, x_yaml="k: 3\n")
    assert has_changed(source)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BrokenInventory, match="nowhere"):
        read_source(tmp_path / "nowhere")


def test_a_template_cannot_reach_into_the_process(tmp_path: Path) -> None:
    write(tmp_path, inventory_yaml="a: {{ ''.__class__.__mro__[1].__subclasses__() }}\n")
    with pytest.raises(BrokenInventory, match="line 1"):
        read_source(tmp_path)


def test_a_changed_or_vanished_file_is_noticed(tmp_path: Path) -> None:
    source = read_source(norfab_folder(tmp_path), {})
    assert not has_changed(source)
    path = tmp_path / "nornir" / "common.yaml"
    os.utime(path, ns=(1, 1))
    assert has_changed(source)
    path.unlink()
    assert has_changed(source)


def test_objects_merge_lists_join_and_the_later_scalar_wins() -> None:
    one = {"a": {"x": 1, "l": [1, 2]}, "b": 1, "c": [1]}
    two = {"a": {"y": 2, "l": [2, 3]}, "b": 2, "c": {"now": "an object"}}
    assert merge(one, two) == {
        "a": {"x": 1, "y": 2, "l": [1, 2, 3]},
        "b": 2,
        "c": {"now": "an object"},
    }


JSON = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3),
)
OBJECTS = st.dictionaries(st.text(max_size=2), JSON, max_size=3)


@given(OBJECTS, OBJECTS)
def test_merging_leaves_both_as_they_were_and_the_same_twice_is_the_same(
    one: dict[str, Any], two: dict[str, Any]
) -> None:
    before = repr((one, two))
    merged = merge(one, two)
    assert repr((one, two)) == before
    assert merge(merged, two) == merged


def test_resources_are_names_or_names_with_replicas() -> None:
    said = {"net": ["a", "b", "a"], "db": {"names": ["x"], "replicas": 2}}
    assert read_resources(said) == {"net": (("a", "b"), 1), "db": (("x",), 2)}
    assert read_resources(None) == {}


@pytest.mark.parametrize(
    "said",
    [[1], {"net": 7}, {"net": [1]}, {"net": [""]}, {"net": ["a\nb"]},
     {"net": {"names": ["a"], "replicas": 0}}, {"net": {"names": ["a"], "replicas": "two"}}],
)  # fmt: skip
def test_invalid_resources_are_refused(said: Any) -> None:
    with pytest.raises(BrokenInventory, match="resources"):
        read_resources(said)
