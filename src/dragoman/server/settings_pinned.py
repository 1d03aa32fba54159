"""Settings after the links are open: free ports become the ones that were bound."""

from dragoman.server.settings import BrokerSettings


def pinned(settings: BrokerSettings, endpoints: dict[str, str]) -> BrokerSettings:
    """Return settings with the bound endpoints, so that a restart listens on the same ports."""
    listen = settings.listen
    pinned = {
        name: endpoint
        for name, endpoint in endpoints.items()
        if getattr(listen, name, "").endswith(":0") or getattr(listen, name, "off") == ""
    }
    return settings.model_copy(update={"listen": listen.model_copy(update=pinned)})
