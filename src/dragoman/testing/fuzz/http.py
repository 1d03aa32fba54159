"""HTTP clients and workers. One frame is a whole request in wire form.

A second frame marks the last request of a connection: its framing may be broken, or its answer may
never end.
"""

from random import Random
from typing import Final
from urllib.parse import quote

from dragoman.testing.fuzz.grammar import Grammar
from dragoman.testing.fuzz.mutations import Frames

LAST: Final = b"last"
_LOOKS: Final = (
    "/v1/jobs?limit=3",
    "/v1/jobs?state=queued&limit=-1",
    "/v1/jobs?limit=99999999999999999999",
    "/v1/jobs?state=%00",
    "/v1/services",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/v1/../v1/services",
    "/%2e%2e/etc",
    "/v1/jobs//why",
    "/v1/nothing",
    "*",
)
_HEADERS: Final = (
    "Dragoman-Client: fuzz",
    "Dragoman-Client: " + "x" * 400,
    "Dragoman-Client: \xff\xfe",
    "Idempotency-Key: k",
    "Accept: application/octet-stream",
    "Last-Event-ID: -5",
    "Last-Event-ID: 99999999999999999999",
    "Content-Type: text/plain",
    "Content-Encoding: gzip",
    "Expect: 100-continue",
    "X: " + "y" * 5000,
)


class HttpGrammar(Grammar):
    """Makes HTTP requests."""

    #: Low, because a mutated request ends its connection.
    mutated = 0.04

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.sessions = [f"{random.getrandbits(128):032x}" for _ in range(20)]
        self.kinds = (
            self._submit,
            self._submit,
            self._call,
            self._raw,
            self._about,
            self._about,
            self._look,
            self._look,
            self._join,
            self._work,
            self._work,
            self._stream,
        )

    def mutate(self, frames: Frames) -> Frames:
        """Mutate the bytes of a request; later requests on its connection are lost."""
        head, gap, body = frames[0].partition(b"\r\n\r\n")
        if self.random.random() < 0.5:
            return [self.mutator.mutate(head) + gap + body, LAST]
        return [head + gap + self.mutator.mutate(body), LAST]

    def _request(self, method: str, path: str, body: bytes | None = None, *more: str) -> Frames:
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *more]
        if self.random.random() < 0.2:
            lines.append(self.random.choice(_HEADERS))
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        frame = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")
        return [frame, LAST] if any(line.startswith("Expect") for line in lines) else [frame]

    def _wanted(self) -> dict[str, object]:
        fields = {
            "service": self.service(),
            **self.call(),
            "timeout": 0.05,
            "target": self.random.choice(("any", "all", "w-1", "labels:a=b", "resource:r")),
            "job": self.job(),
            "key": self.random.choice(("", "k-1")),
            "headers": {"a": "b"},
            "priority": 1,
        }
        keys = self.random.sample(list(fields), self.random.randrange(1, len(fields)))
        return {key: fields[key] for key in ("service", "timeout", *keys)}

    def call(self) -> dict[str, object]:
        """Return a valid call; `json` makes it odd."""
        return {"task": "echo", "args": [{"$bytes": "AP8="}], "kwargs": {"x": 1}}

    def _submit(self) -> Frames:
        return self._request("POST", "/v1/jobs", self.json(self._wanted()))

    def _call(self) -> Frames:
        return self._request("POST", "/v1/call", self.json(self._wanted()))

    def _raw(self) -> Frames:
        query = self.random.choice(("timeout=0.05", "timeout=0.05&task=x&priority=a", "target=%00"))
        path = f"/v1/call/{quote(self.service(), safe='')}?{query}&timeout=0.05"
        lines = ("Content-Type: application/octet-stream", "Content-Length: 3")
        frames = self._request("POST", path, None, *lines)
        return [frames[0] + b"abc", *frames[1:]]

    def _about(self) -> Frames:
        random, job = self.random, quote(self.job(), safe="")
        method, rest = random.choice(
            (
                *(("GET", ""), ("GET", "/result"), ("GET", "/result?wait=x"), ("GET", "/why")),
                *(("DELETE", ""), ("POST", "/input"), ("PUT", ""), ("GET", "/result?wait=0.01")),
            )
        )
        body = self.json({"value": 1, "request": "q"}) if method == "POST" else None
        return self._request(method, f"/v1/jobs/{job}{rest}", body)

    def _look(self) -> Frames:
        method = self.random.choice(("GET", "GET", "GET", "HEAD", "OPTIONS", "TRACE", "POST"))
        return self._request(method, self.random.choice(_LOOKS), b"" if method == "POST" else None)

    def _join(self) -> Frames:
        fields = {
            "services": [self.service()],
            "name": self.random.choice(("", "w-1", "w-2")),
            "labels": {"a": "b"},
            "resources": ["r"],
            "credit": 1,
            "busy_lease": 1,
            "session": self.random.choice(self.sessions),
            "holds": [self.job()],
        }
        keys = self.random.sample(list(fields), self.random.randrange(len(fields)))
        body = {key: fields[key] for key in ("services", *keys)}
        return self._request("POST", "/v1/workers", self.json(body))

    def _work(self) -> Frames:
        random = self.random
        base = f"/v1/workers/{random.choice(self.sessions)}"
        attempt = random.choice(("1", "0", "-1", "x", "99999999999999999999"))
        path, fields = random.choice(
            (
                (f"{base}/poll", {"wait": 0.01, "after": 0}),
                (f"{base}/events", {"topic": "a.b", "event": {"c": 1}}),
                (f"{base}/jobs/{self.job()}/{attempt}", {"kind": "final", "value": 1}),
                (f"{base}/jobs/{self.job()}/1", {"kind": "progress", "value": [1]}),
                (f"{base}/jobs/{self.job()}/1", {"kind": "forward", "service": "x", "task": "t"}),
            )
        )
        if random.random() < 0.1:
            return self._request("DELETE", base)
        return self._request("POST", path, self.json(fields))

    def _stream(self) -> Frames:
        query = self.random.choice(
            ("after=-1", "after=0&topic=a.*", "after=x", "topic=" + "a" * 99)
        )
        path = self.random.choice((f"/v1/events?{query}", "/v1/inbox"))
        if self.random.random() < 0.95:
            return self._request("GET", f"/v1/events?{query}&after=no")
        return [*self._request("GET", path)[:1], LAST]
