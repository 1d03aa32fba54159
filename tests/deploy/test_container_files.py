"""The Dockerfile and the compose file: what a linter would ask for, and names that exist."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dragoman.dialects.listeners import LISTENERS

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "deploy" / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
#: The keys of a service in the Compose specification that these files use.
KEYS = set(
    """build cap_drop command depends_on environment healthcheck image ports read_only restart
    security_opt stop_grace_period tmpfs volumes working_dir""".split()
)


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", " ", (DOCKER / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for name, rest in instructions():
        if name == "FROM":
            found.append([])
        found[-1].append((name, rest))
    return found


def test_instructions_are_known_ones() -> None:
    known = set(
        """CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK RUN STOPSIGNAL USER VOLUME
        WORKDIR""".split()
    )
    assert {name for name, _ in instructions()} <= known


def test_images_have_versions() -> None:
    bases = [rest.split()[0] for name, rest in instructions() if name == "FROM"]
    bases += re.findall(r"--from=(\S+/\S+)", (DOCKER / "Dockerfile").read_text())
    bases += [service["image"] for service in COMPOSE["services"].values()]
    assert [base for base in bases if not re.search(r":[^:]*\d", base)] == []


def test_the_last_stage_copies_the_result_and_runs_as_a_plain_user() -> None:
    build, last = stages()
    assert "AS build" in build[0][1]
    names = [name for name, _ in last]
    assert [rest for name, rest in last if name == "USER"] == ["10001:10001"]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert any(rest.startswith("--from=build ") for name, rest in last if name == "COPY")


@pytest.mark.parametrize("wanted", ["HEALTHCHECK", "ENTRYPOINT", "CMD", "STOPSIGNAL"])
def test_the_last_stage_has_an_instruction_once_and_without_a_shell(wanted: str) -> None:
    (rest,) = [rest for name, rest in stages()[-1] if name == wanted]
    if wanted != "STOPSIGNAL":
        assert json.loads(rest[rest.index("[") :])


def test_every_port_of_a_default_listener_is_exposed() -> None:
    (exposed,) = [rest for name, rest in stages()[-1] if name == "EXPOSE"]
    assert set(exposed.split()) == {str(each.port) for each in LISTENERS if each.name != "nats"}


def test_what_is_copied_exists_and_is_sent_to_the_builder() -> None:
    sent = (ROOT / ".dockerignore").read_text().split()
    for name, rest in instructions():
        if name == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists()
                assert f"!{source.removeprefix('./')}" in sent


def test_services_are_those_of_the_page_with_keys_of_the_specification() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"broker", "worker-1", "worker-2", "prometheus", "grafana"}
    assert {key for service in services.values() for key in service} <= KEYS


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_service_has_few_rights_and_is_published_here_only(name: str) -> None:
    service = COMPOSE["services"][name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_files_and_volumes_exist() -> None:
    for service in COMPOSE["services"].values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            is_there = source in COMPOSE["volumes"] or (DOCKER / source).exists()
            assert is_there, source


def test_the_brokers_options_exist() -> None:
    names = {each.name.replace("_", "-") for each in LISTENERS}
    options = [word for word in COMPOSE["services"]["broker"]["command"] if word != "up"]
    known = names | {"data", "insecure"}
    assert {word.removeprefix("--").split("=")[0] for word in options} <= known


def test_grafana_finds_the_dashboard_where_it_is_mounted() -> None:
    mounts = dict(
        each.rsplit(":", 2)[:2]
        for each in COMPOSE["services"]["grafana"]["volumes"]
        if each.startswith(".")
    )
    provisioning = ROOT / "deploy" / "grafana" / "provisioning"
    (board,) = yaml.safe_load((provisioning / "dashboards" / "dragoman.yaml").read_text())[
        "providers"
    ]
    assert mounts["../grafana/dragoman.json"].startswith(board["options"]["path"])
    assert mounts["../grafana/provisioning"] == "/etc/grafana/provisioning"


def test_prometheus_has_the_alerts_and_scrapes_the_broker_of_the_network() -> None:
    config = yaml.safe_load((DOCKER / "prometheus.yml").read_text())
    assert config["rule_files"] == ["alerts.yml"]
    assert config["scrape_configs"][0]["static_configs"] == [{"targets": ["broker:8420"]}]
