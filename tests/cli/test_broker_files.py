"""Where a broker's files are."""

from pathlib import Path

import pytest
import typer.main

from dragoman.cli.broker_files import (
    find_settings,
    make_data_folder,
    open_namespace_registry,
    open_registry,
    policy_file,
    registry_file,
)
from dragoman.cli.main import app


def test_files_are_in_the_data_folder_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    settings = find_settings(None, tmp_path)
    assert registry_file(settings) == tmp_path / "registry.json"
    assert policy_file(settings) == tmp_path / "policy.toml"
    config = tmp_path / "dragoman.toml"
    config.write_text('[security]\nregistry = "keys.json"\npolicy = "p.toml"\n')
    settings = find_settings(config, None)
    assert (registry_file(settings), policy_file(settings)) == (Path("keys.json"), Path("p.toml"))


def test_the_files_of_a_namespace_are_in_its_folder(tmp_path: Path) -> None:
    config = tmp_path / "dragoman.toml"
    config.write_text('[namespaces.acme.listen]\nnfp = "127.0.0.1:0"\n')
    settings = find_settings(config, tmp_path, "acme")
    assert registry_file(settings) == tmp_path / "namespaces" / "acme" / "registry.json"
    with pytest.raises(ValueError, match="no namespace 'globex'"):
        open_namespace_registry(config, tmp_path, "globex")


def test_no_key_is_added_that_another_namespace_has(tmp_path: Path) -> None:
    config = tmp_path / "dragoman.toml"
    config.write_text('[namespaces.acme.listen]\nnfp = "127.0.0.1:0"\n')
    key = "nkey:U" + "A" * 55
    open_namespace_registry(config, tmp_path, "acme").add(key, "sue", now=1.0)
    with pytest.raises(ValueError, match="in use elsewhere"):
        open_namespace_registry(config, tmp_path, "").add(key, "sue", now=1.0)


def test_a_data_folder_is_made_and_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    make_data_folder(tmp_path / "a" / "b")
    make_data_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file is a file; name a folder with --data"):
        make_data_folder(tmp_path / "file")
    with pytest.raises(ValueError, match="file/below is a file"):
        make_data_folder(tmp_path / "file" / "below")


def test_a_data_folder_that_cannot_be_made_is_named() -> None:
    with pytest.raises(ValueError, match="cannot use the data folder /proc/nosuch/data: "):
        make_data_folder(Path("/proc/nosuch/data"))


def test_a_registry_need_not_be_there(tmp_path: Path) -> None:
    assert open_registry(find_settings(None, tmp_path)).entries() == {}


@pytest.mark.parametrize("name", ["up", "doctor", "settings"])
def test_commands_about_one_broker_read_the_same_file(name: str) -> None:
    group = typer.main.get_command(app)
    (config,) = [each for each in group.commands[name].params if each.name == "config"]  # type: ignore[attr-defined]
    assert config.envvar == "DRAGOMAN_CONFIG"
