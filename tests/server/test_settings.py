"""Settings come from the file, then the environment, then flags; a misspelt name is an error."""

from dataclasses import fields
from pathlib import Path

import pytest
from tests.source_tree import SOURCE

from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.server.settings import BrokerSettings, load

PAGES = {
    "nfp": "nfp",
    "dcp": "dcp",
    "zss": "zss",
    "memo": "memo01",
    "ncl": "ncl",
}


def test_defaults_bind_to_this_machine_only() -> None:
    listen = load().listen
    assert all("127.0.0.1" in e for e in (listen.nfp, listen.dcp, listen.memo))


def test_flags_win_over_the_environment_which_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "d.toml"
    config.write_text('data = "from-file"\ndrain = 3.0\n[nfp]\npatience = 7.0\n')
    assert load(config).data == Path("from-file")
    monkeypatch.setenv("DRAGOMAN_DATA", "from-env")
    monkeypatch.setenv("DRAGOMAN_NFP__PATIENCE", "8")
    assert load(config).data == Path("from-env")
    assert load(config).nfp.patience == 8.0
    assert load(config, data=Path("flag")).data == Path("flag")
    assert load(config).drain == 3.0


@pytest.mark.parametrize(
    "text",
    ["dta = 1", "[nfp]\npatiense = 1", "[nfp]\npatience = -1", "[services.x]\nbalance = 'b'"],
)
def test_a_wrong_setting_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    config = tmp_path / "d.toml"
    config.write_text(text)
    name = text.split("=")[0].split("\n")[-1].strip()
    with pytest.raises(ValueError, match=name):
        load(config)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        load(tmp_path / "nothing.toml")


@pytest.mark.parametrize("section", PAGES)
def test_every_setting_of_a_link_is_on_the_page_of_its_dialect(section: str) -> None:
    page = (SOURCE / "dialects" / PAGES[section] / "README.md").read_text()
    said = page.partition("## Settings")[2]
    names = type(getattr(BrokerSettings(), section)).model_fields
    assert [name for name in names if f"`{name}`" not in said] == []


def test_every_setting_of_the_orchestrator_can_be_set_and_has_its_default() -> None:
    side = OrchestratorSettings()
    names = [f.name for f in fields(OrchestratorSettings)]
    assert load().ncl.model_dump() == {name: getattr(side, name) for name in names}
