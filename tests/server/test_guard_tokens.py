"""The guard and tokens of issuers: what ends when a token ends, and who may touch what."""

import time
from pathlib import Path

import pytest
from tests.server.memory_server import settle
from tests.server.test_guard import SecuredServer, worker

from dragoman.model.fault import FaultCode
from dragoman.model.names import Principal
from dragoman.security.issued_tokens import IssuedToken, token_key
from dragoman.server.guard import Guard
from dragoman.server.settings import SecuritySection


@pytest.fixture
def server(tmp_path: Path) -> SecuredServer:
    return SecuredServer(tmp_path)


def test_what_was_begun_with_a_token_ends_when_it_expires_or_is_revoked(
    server: SecuredServer,
) -> None:
    tokens = {name: token_key(name) for name in ("one", "two", "other")}
    (server.data / "policy.toml").write_text('[groups]\n"corp:w" = ["worker"]\n')
    server.guard = Guard(SecuritySection(enabled=True), server.data, lambda: server.now)
    # The loop has a clock of its own.
    server.now = now = time.time()

    async def scenario(server: SecuredServer) -> None:
        for (name, key), until in zip(
            tokens.items(), (now + 900, now + 2000, now + 2000), strict=True
        ):
            who = Principal("corp:vera" if name == "other" else "corp:anna")
            server.guard.tokens.add(key, IssuedToken(who, ("corp:w",), until))
            server.say(name, key, worker(name))
        await settle(lambda: len(server.broker.state.registry.workers) == 3)
        server.guard.refresh()
        assert len(server.broker.state.registry.workers) == 3
        server.now = now + 900
        server.guard.refresh()
        await settle(lambda: len(server.broker.state.registry.workers) == 2)
        server.registry.revoke_issued("jwt:corp:anna", "corp:anna", 0.0)
        server.guard.refresh()
        await settle(lambda: len(server.broker.state.registry.workers) == 1)
        assert not server.guard.admits(tokens["two"])
        assert server.guard.admits(tokens["other"])
        assert not server.guard.admits(token_key("unknown"))

    server.run(scenario)
    assert [r.detail for r in server.records("left")] == [
        "its key is expired",
        "its key is revoked",
    ]
    # A token that nobody verified is no key that waits for approval.
    assert token_key("unknown") not in server.guard.registry.entries()


def test_only_some_principals_may_touch_the_jobs_of_others(server: SecuredServer) -> None:
    server.registry.add(f"tls:{'d' * 64}", "olga", now=0.0, roles=("operator",))

    async def scenario(server: SecuredServer) -> None:
        assert server.guard.others_fault(Principal("olga"), "lift") is None
        fault = server.guard.others_fault(Principal("sue"), "lift")
        assert fault is not None
        assert fault.code is FaultCode.DENIED
        nobody = server.guard.others_fault(Principal("nobody"), "lift")
        assert nobody is not None
        assert nobody.message == "nobody has no key here"

    server.run(scenario)
