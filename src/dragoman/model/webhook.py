"""The URL of a webhook: what it may look like. Where it may lead is for the settings to say."""

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

#: The longest URL, in characters.
LONGEST_URL: Final = 2000
_PORT: Final = (
    "6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3}"
)
#: The URL of one job, as the API describes it: a host by name or IPv4 address.
JOB_HOOK: Final = rf"^https?://[A-Za-z0-9._~-]+(:({_PORT}))?([/?#][!-~]*)?$"


def split_hook_url(url: str) -> SplitResult:
    """Return the parts of a webhook's URL. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or len(url) > LONGEST_URL:
        raise ValueError(f"{url[:100]!r} is no webhook; write https://HOST/PATH")
    if parts.username or parts.password:
        raise ValueError("a webhook's URL has no user and password; its body is signed instead")
    if not url.isascii() or not url.isprintable() or " " in url or not _has_port(parts):
        raise ValueError(f"{url[:100]!r} has characters or a port that a URL cannot have")
    return parts


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def read_hook(given: object) -> str:
    """Return the URL that a client gave. Raises ValueError with a message for the client."""
    if not isinstance(given, str):
        raise ValueError("must be a URL")
    split_hook_url(given)
    if not re.match(JOB_HOOK, given):
        raise ValueError(f"{given[:100]!r} must have a host by name or IPv4 address")
    return given
