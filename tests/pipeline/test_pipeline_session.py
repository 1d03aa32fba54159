import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.pipeline.session import (
    INSTALL_JAVA,
    JavaMissing,
    SparkUnreachable,
    ensure_java,
    java_version,
    open_session,
)


@pytest.mark.parametrize(
    ("said", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('java version "1.8.0_412"', 8),
        ("command not found", 0),
    ],
)
def test_the_version_is_read_from_what_java_says(said: str, major: int) -> None:
    assert java_version(said) == major


def java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.process
def test_java_of_the_named_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = java(tmp_path, "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert ensure_java() == str(path)


@pytest.mark.process
def test_a_java_that_is_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="is Java 11"):
        ensure_java()


def test_without_java_the_command_that_installs_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match=INSTALL_JAVA):
        ensure_java()


def test_a_java_home_without_java_is_named_because_spark_starts_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, "21.0.1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaMissing, match="nowhere, which has no bin/java"):
        ensure_java()


@pytest.mark.process
def test_a_java_that_cannot_be_started_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, "21.0.1").chmod(0o644)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="bin/java cannot be started: Permission denied"):
        ensure_java()


@pytest.mark.parametrize("address", ["nonsense", "sc://", "sc://host:x", "http://host:15002"])
def test_what_is_no_address_of_a_connect_server_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"no Spark Connect address; use sc://HOST:PORT"):
        open_session(remote=address)


@pytest.mark.process
def test_a_master_that_does_not_answer_is_said_at_once() -> None:
    """Spark would try for minutes, without a word."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(SparkUnreachable, match=f"no Spark master answers at {master}"):
            open_session(master)
    with pytest.raises(ValueError, match=r"no Spark master; use spark://HOST:PORT"):
        open_session("spark://somewhere")


@pytest.mark.spark
@pytest.mark.parametrize(("master", "memory"), [("nonsense", "1g"), ("local[1]", "nonsense")])
def test_a_master_or_memory_that_spark_refuses_is_named(master: str, memory: str) -> None:
    """In a process of its own: this one may have a session already."""
    program = f"""
from dragoman.pipeline.session import SparkNotStarted, open_session
try:
    open_session({master!r}, memory={memory!r})
except SparkNotStarted as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert f"did not start with master {master!r} and memory {memory!r}: " in done.stdout
