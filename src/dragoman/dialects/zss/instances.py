"""The registered service instances of a ZSS broker, with their sids and versions.

Sids are not case sensitive. The broker writes service names in lower case, as most services of
other dialects do, so `MATH` of a ZSS client finds their `math`. An instance gives its version in
its sid: `MATH@1.2.0` serves `math` and `math@1.2.0`.
"""

from collections.abc import Mapping
from typing import Final

from dragoman.model.names import EVERY_SERVICE, PeerId, ServiceName
from dragoman.model.value import value

#: The `sversion` of a request for any version.
NEWEST: Final = "*"


@value
class RegisteredSid:
    """One sid of one instance."""

    #: In capitals, as the instance compares it.
    sid: str
    service: ServiceName
    version: str = ""

    @property
    def services(self) -> tuple[ServiceName, ...]:
        """The service names that it serves."""
        return (self.service, at_version(self.service, self.version))[: 2 if self.version else 1]


def at_version(service: ServiceName, version: str) -> ServiceName:
    """Name one version of a service."""
    return ServiceName(f"{service}@{version}")


def age(version: str) -> tuple[object, ...]:
    """Return the sort key of a version: by number; a release is newer than its pre-releases."""
    numbers, _, early = version.partition("-")
    parts = tuple((1, int(p), "") if p.isdecimal() else (0, 0, p) for p in numbers.split("."))
    return (parts, not early, early)


class ServiceInstances:
    """The registered sids of all instances."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = {sid.upper(): name for sid, name in names.items()}
        self._offers: dict[PeerId, dict[str, RegisteredSid]] = {}
        #: Service -> version -> how many instances have it.
        self._versions: dict[ServiceName, dict[str, int]] = {}
        self._newest: dict[ServiceName, str] = {}

    def name(self, sid: str) -> ServiceName:
        """Return the broker's name for the service of a sid."""
        name = self._names.get(sid.upper(), sid.lower())
        return ServiceName(name if name != EVERY_SERVICE else "0x" + name.encode().hex())

    def find(self, sid: str, sversion: str) -> ServiceName:
        """Return the service of a request: the newest version, or the version that it names."""
        service = self.name(sid)
        if sversion not in (NEWEST, ""):
            return at_version(service, sversion)
        newest = self._newest.get(service)
        return at_version(service, newest) if newest else service

    def up(self, peer: PeerId, sid: str) -> bool:
        """Register a sid of an instance; False if it was registered already."""
        offers = self._offers.setdefault(peer, {})
        if sid.upper() in offers:
            return False
        name, _, version = sid.partition("@")
        offer = RegisteredSid(sid.upper(), self.name(name), version.lower())
        offers[offer.sid] = offer
        self._count(offer, 1)
        return True

    def down(self, peer: PeerId, sid: str) -> bool:
        """Remove a sid of an instance; False if it was not registered."""
        offers = self._offers.get(peer, {})
        offer = offers.pop(sid.upper(), None)
        if offer is None:
            return False
        self._count(offer, -1)
        if not offers:
            del self._offers[peer]
        return True

    def forget(self, peer: PeerId) -> None:
        """Remove all sids of an instance."""
        for sid in list(self._offers.get(peer, ())):
            self.down(peer, sid)

    def is_up(self, peer: PeerId, sid: str) -> bool:
        """Whether an instance has registered this sid."""
        return sid.upper() in self._offers.get(peer, {})

    def services(self, peer: PeerId) -> tuple[ServiceName, ...]:
        """Return every service name that an instance serves."""
        offers = self._offers.get(peer, {}).values()
        return tuple(dict.fromkeys(name for offer in offers for name in offer.services))

    def sid(self, peer: PeerId, service: ServiceName) -> str:
        """Return the sid under which an instance expects requests for a service."""
        offers = self._offers.get(peer, {}).values()
        found = (offer.sid for offer in offers if service in offer.services)
        return next(found, service.upper())

    def _count(self, offer: RegisteredSid, change: int) -> None:
        if not offer.version:
            return
        versions = self._versions.setdefault(offer.service, {})
        versions[offer.version] = versions.get(offer.version, 0) + change
        if not versions[offer.version]:
            del versions[offer.version]
        if versions:
            released = [version for version in versions if "-" not in version]
            self._newest[offer.service] = max(released or versions, key=age)
        else:
            del self._versions[offer.service], self._newest[offer.service]
