"""Settings come from the file, then the environment, then flags; errors name source and setting."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dragoman.server.settings_sources import load, load_file, load_with_origins


def written(folder: Path, text: str) -> Path:
    config = folder / "d.toml"
    config.write_text(text)
    return config


def test_flags_win_over_the_environment_which_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = written(tmp_path, 'data = "from-file"\ndrain = 3.0\n[nfp]\npatience = 7.0\n')
    assert load(config).data == Path("from-file")
    monkeypatch.setenv("DRAGOMAN_DATA", "from-env")
    monkeypatch.setenv("DRAGOMAN_NFP__PATIENCE", "8")
    assert load(config).data == Path("from-env")
    assert load(config).nfp.patience == 8.0
    assert load(config, data=Path("flag")).data == Path("flag")
    assert load(config).drain == 3.0


def test_every_value_has_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = written(tmp_path, "[nfp]\npatience = 7\ntimeout = 9\n")
    monkeypatch.setenv("DRAGOMAN_NFP__PATIENCE", "8")
    loaded = load_with_origins(config, data=Path("d"))
    assert loaded.origin(("nfp", "patience")) == "DRAGOMAN_NFP__PATIENCE"
    assert loaded.origin(("nfp", "timeout")) == str(config)
    assert loaded.origin(("data",)) == "flag"
    assert loaded.origin(("drain",)) == "default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dta = 1", "d.toml: unknown setting dta; did you mean data?"),
        ("[nfp]\npatiense = 1", "unknown setting nfp.patiense; did you mean nfp.patience?"),
        ("[npf]\npatience = 1", "unknown setting npf; did you mean nfp?"),
        ("[nfp]\nmax_name = 1", "unknown setting nfp.max_name"),
        ("[dcp.terms]\nstrict = true", "unknown setting dcp.terms"),
        ("nfp = 1", "nfp is a section, not a setting"),
        ("[nfp]\npatience = -1", "d.toml: nfp.patience = -1: Input should be greater"),
        ("[services.x]\nbalance = 'b'", "services.x.balance = 'b': Input should be"),
        ("[credentials]\nkey = 'k'", "d.toml: credentials: certificate, key and authority"),
        ("[listen]\nnfp = 'x y'", "listen.nfp: 'x y' is not an endpoint"),
        ("data = 'a'\ndrain = ten", "d.toml, line 2: Invalid value: drain = ten"),
        ("x = [", "d.toml: Invalid value (at end of document)"),
    ],
)
def test_an_error_names_the_file_the_setting_and_the_nearest_one(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load(written(tmp_path, text))
    assert message in str(caught.value)


def test_a_missing_file_and_a_folder_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        load(tmp_path / "nothing.toml")
    with pytest.raises(ValueError, match="cannot read the settings file"):
        load(tmp_path)


def test_lists_tables_and_sections_in_the_environment_are_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRAGOMAN_HTTP__HOSTS", '["a", "b"]')
    monkeypatch.setenv("DRAGOMAN_ZSS", '{"names": {"MATH": "Math"}, "credit": 3}')
    monkeypatch.setenv("DRAGOMAN_SERVICES__MATH__PATIENCE", "4")
    settings = load()
    assert settings.http.hosts == ("a", "b")
    assert (settings.zss.names, settings.zss.credit) == ({"MATH": "Math"}, 3)
    assert settings.services["math"].patience == 4.0
    monkeypatch.setenv("DRAGOMAN_HTTP__HOSTS", "a")
    with pytest.raises(ValueError, match="DRAGOMAN_HTTP__HOSTS must be JSON"):
        load()


def test_a_listener_in_the_environment_needs_no_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_LISTEN__NFP", "127.0.0.1:0")
    assert load().listen.nfp == "tcp://127.0.0.1:0"


def test_a_misspelt_variable_is_refused_or_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_NFP__PATIENSE", "1")
    with pytest.raises(ValueError, match=r"DRAGOMAN_NFP__PATIENSE: unknown setting nfp\.patiense"):
        load()
    monkeypatch.delenv("DRAGOMAN_NFP__PATIENSE")
    # Kubernetes sets this one for a service that is called dragoman.
    monkeypatch.setenv("DRAGOMAN_PORT_5555_TCP_ADDR", "10.0.0.1")
    monkeypatch.setenv("DRAGOMAN_URL", "nfp://h")
    monkeypatch.setenv("DRAGOMAN_DTA", "x")
    with capture_logs() as logs:
        load()
    assert [(log["variable"], log["did_you_mean"]) for log in logs] == [
        ("DRAGOMAN_DTA", "DRAGOMAN_DATA")
    ]


def test_a_section_with_a_name_may_be_empty(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("[namespaces.acme]\n[namespaces.globex]\nshared = false\n")
    assert list(load(file).namespaces) == ["acme", "globex"]
    # An empty section of a later source takes nothing away.
    assert not load(file, namespaces={"globex": {}}).namespaces["globex"].shared


def test_a_file_alone_is_read_without_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "acme.toml"
    file.write_text("drain = 4\n")
    monkeypatch.setenv("DRAGOMAN_DRAIN", "9")
    monkeypatch.setenv("DRAGOMAN_DATA", "elsewhere")
    found = load_file(file)
    assert (found.drain, found.model_fields_set) == (4.0, {"drain"})
    file.write_text("drain = -1\n")
    with pytest.raises(ValueError, match=r"acme.toml: drain"):
        load_file(file)
