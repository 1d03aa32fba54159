"""`nf://` arguments of tasks: downloaded before the task runs, and cached.

A task that is called with `nf://path` gets the path of a local copy instead. The cache is keyed by
digest, so an unchanged file is downloaded once.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dragoman.dialects.listeners import CLIENT_PORTS, WORKER_PORTS
from dragoman.model.content import Answer, Call
from dragoman.sdk.blocking import Client
from dragoman.sdk.cache import LARGEST_CACHE, FileCache
from dragoman.sdk.client import MANAGEMENT
from dragoman.sdk.credentials import CredentialsLike
from dragoman.sdk.errors import DragomanError
from dragoman.sdk.files import SCHEME, Files
from dragoman.sdk.large_values import (
    LARGEST,
    LargeValues,
    StoredValue,
    ValueLost,
    check_size,
    content_of,
    packed,
    read_reference,
    unpacked,
)
from dragoman.sdk.url import Endpoint


class FetchFailed(Exception):
    """A call to the broker for a worker's file or event failed. The message says which and why."""


def default_cache() -> Path:
    """Return the default cache folder, inside the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman" / "files"


class Fetcher:
    """Replaces the `nf://` arguments of calls by local paths. Connects on first use."""

    def __init__(
        self,
        url: str,
        name: str,
        cache: Path | None = None,
        credentials: CredentialsLike = None,
        largest: int = LARGEST_CACHE,
        values: LargeValues | None = None,
    ) -> None:
        self._url = url
        self._name = name
        self._cache = FileCache(cache or default_cache(), largest)
        self._credentials = credentials
        self._values = values
        self._lock = threading.Lock()
        self._client: Client | None = None

    def resolved(self, call: Call) -> Call:
        """Return the call with every `nf://` URL replaced. Raises `FetchFailed`."""
        if not has_files(call):
            return call
        args = tuple(self._resolve(each) for each in call.args)
        kwargs = {name: self._resolve(each) for name, each in call.kwargs.items()}
        return Call(call.task, args, kwargs, call.raw, call.headers, call.timeout)

    def _resolve(self, argument: object) -> object:
        if isinstance(argument, str):
            return str(self.fetch(argument)) if argument.startswith(SCHEME) else argument
        if isinstance(argument, Mapping):
            if (stored := read_reference(argument)) is not None:
                return self._load(stored)
            return {key: self._resolve(each) for key, each in argument.items()}
        if isinstance(argument, list | tuple):
            return [self._resolve(each) for each in argument]
        return argument

    def _load(self, stored: StoredValue) -> object:
        try:
            check_size(stored, LARGEST if self._values is None else self._values.largest)
            with self.fetch(stored.url).open("rb") as file:
                # A byte more than the reference says: another file is not read to its end.
                return unpacked(stored, file.read(stored.size + 1))
        except (ValueLost, OSError) as error:
            raise FetchFailed(str(error)) from None

    def is_large(self, answer: Answer) -> bool:
        """Whether a result is stored before its job ends."""
        return self._values is not None and self._values.is_large_answer(answer)

    def stored(self, answer: Answer) -> Answer:
        """Return an answer with a reference to its result. Raises `FetchFailed`."""
        assert self._values is not None
        stored, data = packed(content_of(answer), self._values.folder)
        with self._lock:
            try:
                Files(self._connected()).put_bytes(data, stored.url)
            except (DragomanError, OSError) as error:
                raise FetchFailed(f"{stored.url}: {error}") from None
        return Answer(stored.members(), None, None, answer.worker, answer.resources)

    def fetch(self, url: str) -> Path:
        """Return the path of a local copy, downloaded if necessary. Raises `FetchFailed`."""
        # One at a time: two tasks must not write the same copy.
        with self._lock:
            try:
                files = Files(self._connected())
                sha256 = str(files.details(url)["sha256"])
                copy = self._cache.place(sha256, url.rpartition("/")[2] or "file")
                if self._cache.has(copy):
                    return copy
                files.fetch(url, copy)
                self._cache.trim(keep=copy)
                return copy
            except (DragomanError, OSError) as error:
                raise FetchFailed(f"{url}: {error}") from None

    def _connected(self) -> Client:
        if not self._url:
            raise FetchFailed("this worker has no broker to fetch files from; set its files_url")
        if self._client is None:
            self._client = Client(self._url, f"{self._name}-files", self._credentials)
        return self._client

    def publish(self, topic: str, event: object) -> None:
        """Publish an event by a management call. Raises `FetchFailed`."""
        with self._lock:
            client = self._connected()
        try:
            client.options(timeout=30.0).call(MANAGEMENT, "publish", topic=topic, event=event)
        except (DragomanError, OSError) as error:
            raise FetchFailed(f"{topic}: {error}") from None

    def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def has_files(call: Call) -> bool:
    """Whether an argument of the call is an `nf://` URL, or contains one."""
    return _has_files(call.args) or _has_files(call.kwargs)


def _has_files(argument: object) -> bool:
    if isinstance(argument, str):
        return argument.startswith(SCHEME)
    if isinstance(argument, Mapping):
        # A reference to a value holds a URL too.
        return any(map(_has_files, argument.values()))
    return isinstance(argument, list | tuple) and any(map(_has_files, argument))


#: ZSS's default ports: of workers, and of clients.
_ZSS_PORTS: Final = (f":{WORKER_PORTS['zss']}", f":{CLIENT_PORTS['zss']}")


def files_url(worker: Endpoint) -> str:
    """Return the client URL of a worker's broker; empty if it cannot be derived."""
    if worker.dialect == "zss":
        places = str(worker).split(",")
        is_default = all(place.endswith(_ZSS_PORTS[0]) for place in places)
        clients = [place.removesuffix(_ZSS_PORTS[0]) + _ZSS_PORTS[1] for place in places]
        return ",".join(clients) if is_default else ""
    return "" if worker.dialect == "ncl" else str(worker)
