"""Tenants on shared listeners: no peer of one namespace reaches anything of another."""

from collections.abc import Iterator

import pytest
from tests.security.attacks.attacked_site import REFUSALS
from tests.security.tenants import TENANTS, Tenant, TenantSite, loop_of, worker_principals
from tests.security.test_live_security import DIALECTS

from dragoman import Client
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop

MMI = "mmi.service.broker"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> TenantSite:
    return TenantSite(tmp_path_factory.mktemp("tenants"))


@pytest.fixture(scope="module")
def broker(site: TenantSite) -> Iterator[LocalBroker]:
    with site.broker() as running:
        yield running


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_service_name_is_two_services(
    site: TenantSite, broker: LocalBroker, dialect: str
) -> None:
    acme, globex = (Tenant(site, broker, name, dialect) for name in TENANTS)
    with acme, globex:
        assert (acme.whose(), globex.whose()) == ("acme", "globex")
        assert not worker_principals(broker, "default")
        key = site.key(f"own-{dialect}", "submitter")
        with Client(broker.url(dialect), credentials=key) as own, pytest.raises(REFUSALS):
            own.options(timeout=2).call(acme.service, "whose")
