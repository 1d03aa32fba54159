"""Two tenants on the shared listeners of one secured broker, with peers of every dialect."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.security.test_live_security import DIALECTS, Site, dragoman, until

from dragoman import Client, Worker
from dragoman.cli.broker_files import find_settings
from dragoman.server.loop import Loop
from dragoman.testing.harness import LocalBroker

TENANTS = ("acme", "globex")
#: The policy of the second tenant.
POLICY = """
[limits."flood-*"]
open_jobs = 1
"""


class TenantSite(Site):
    """A folder of `dragoman init` with two namespaces."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with (folder / "dragoman.toml").open("a") as file:
            file.write("".join(f"\n[namespaces.{name}]\n" for name in TENANTS))
        self.folder_of("globex").mkdir(0o700, parents=True)
        (self.folder_of("globex") / "policy.toml").write_text(POLICY)

    def tenant_key(self, namespace: str, name: str, role: str) -> Path:
        """Allow a principal in a namespace."""
        path = self.folder / f"{namespace}-{name}.key"
        words = ("keys", "new", name, "--role", role, "--out", str(path), "--config", self.config)
        assert dragoman(*words, "--namespace", namespace) == 0
        return path

    def folder_of(self, namespace: str) -> Path:
        """Return the data folder of a namespace."""
        return self.folder / "data" / "namespaces" / namespace

    def broker(self, **settings: Any) -> LocalBroker:
        found = find_settings(Path(self.config), None)
        return LocalBroker(
            *DIALECTS,
            *("zss_backend", "nats"),
            data=found.data,
            security=found.security.model_dump(),
            credentials=found.credentials.model_dump(),
            namespaces={name: {} for name in TENANTS},
            **settings,
        )


def loop_of(broker: LocalBroker, namespace: str) -> Loop:
    """Return the loop of a namespace."""
    assert broker.namespaces is not None
    loop = broker.namespaces.servers[namespace].loop
    assert loop is not None
    return loop


def worker_principals(broker: LocalBroker, namespace: str) -> set[str]:
    """Return the principals of the workers of a namespace that are not built in."""
    found = loop_of(broker, namespace).broker.state.registry.workers.values()
    return {str(worker.principal) for worker in found if not worker.is_builtin}


class Tenant:
    """The peers of one namespace: a worker and a client of one dialect."""

    def __init__(self, site: TenantSite, broker: LocalBroker, name: str, dialect: str) -> None:
        self.name = name
        self._broker = broker
        is_nats = dialect == "ncl"
        nats = broker.endpoints["nats"].replace("tcp://", "ncl://")
        url = nats if is_nats else broker.url(dialect, for_workers=True)
        key = site.tenant_key(name, f"w-{dialect}", "worker")
        # The same service and the same name in every namespace.
        self.service = f"lift-{dialect}"
        self.worker = Worker(
            url, self.service, name=f"w-{dialect}", own_process_beats=False, credentials=key
        )
        self.worker.task(lambda: name, name="whose")
        self.principal = f"w-{dialect}"
        self.key = site.tenant_key(name, f"sue-{dialect}", "submitter")
        # NCL has workers only.
        client_url = broker.url("nfp" if is_nats else dialect)
        self.client = Client(client_url, credentials=self.key)
        self._stack = ExitStack()

    def __enter__(self) -> "Tenant":
        self._stack.enter_context(self.worker)
        self._stack.enter_context(self.client)
        name = self.principal
        until(lambda: name in worker_principals(self._broker, self.name), 20)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def whose(self) -> object:
        """Call the service; the answer is the namespace that served it."""
        return self.client.options(timeout=20).call(self.service, "whose")
