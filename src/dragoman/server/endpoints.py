"""Endpoints of listeners: completed and checked before anything is opened."""

from urllib.parse import urlsplit

from dragoman.dialects.listeners import OFF, ListenerSpec

_NATS_URLS = ("nats", "tls")


def check_endpoint(listener: ListenerSpec, text: str) -> str:
    """Return an endpoint with its scheme. Raises ValueError with the forms that are possible."""
    endpoint = listener.complete(text.strip())
    if endpoint == OFF or endpoint == listener.default:
        return endpoint
    for each in endpoint.split(","):
        if not _is_usable(listener, each.strip()):
            raise ValueError(f"{text!r} is not an endpoint; use {_forms(listener)}")
    return endpoint


def _is_usable(listener: ListenerSpec, endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    if parts.scheme == "ipc" and listener.scheme == "tcp" and listener.name != "nats":
        return bool(parts.netloc or parts.path)
    if parts.scheme not in (listener.scheme, *(_NATS_URLS if listener.name == "nats" else ())):
        return False
    try:
        has_port = parts.port is not None
    except ValueError:
        return False
    return bool(parts.hostname) and (has_port or parts.scheme in _NATS_URLS)


def _forms(listener: ListenerSpec) -> str:
    own = f"{listener.scheme}://HOST:PORT, HOST:PORT"
    if listener.name == "nats":
        return f"{own}, nats://HOST:PORT of another server, or off"
    ipc = ", ipc:///PATH" if listener.scheme == "tcp" else ""
    return f"{own}{ipc}, or off"
