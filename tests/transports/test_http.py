"""The HTTP client of a peer: lanes keep order, unanswered requests are repeated."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.transports.base import Sent
from dragoman.transports.http import HttpRequester

Handler = Callable[[str, bytes], Awaitable[bytes | None]]


class Server:
    """A server that answers as the test says; None cuts the connection."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.asked: list[str] = []
        self.connections = 0

    async def __aenter__(self) -> "Server":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, _, rest = head.decode().partition("\r\n")
                lengths = [x.split(":")[1] for x in rest.split("\r\n") if "content-length" in x]
                body = await reader.readexactly(int(lengths[0])) if lengths else b""
                self.asked.append(line.rpartition(" ")[0])
                answer = await self._handler(head.decode(), body)
                if answer is None:
                    break
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def ok(body: bytes = b"{}", status: int = 200) -> bytes:
    return f"HTTP/1.1 {status} OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def request(tag: str, lane: str = "l", mode: str = "once", path: str = "/") -> list[bytes]:
    words = [tag, lane, mode, "POST" if mode == "once" else "GET", path, "x-name: text"]
    return [*(word.encode() for word in words), b""]


class Peer:
    """The requester, and what arrives."""

    def __init__(self, *ports: int) -> None:
        places = [f"127.0.0.1:{port}" for port in ports]
        self.transport = HttpRequester(f"tcp://{','.join(places)}")
        self.arrived: list[list[bytes]] = []
        self._changed = asyncio.Event()

    async def __aenter__(self) -> "Peer":
        await self.transport.open(self._wake)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.transport.close()

    def _wake(self) -> None:
        self.arrived += [frames for _, frames in self.transport.drain(100)]
        self._changed.set()

    def ask(self, *requests: list[bytes]) -> None:
        for frames in requests:
            assert self.transport.send(b"", frames) is Sent.YES

    async def wait_for(self, number: int) -> list[list[bytes]]:
        async with asyncio.timeout(10):
            while len(self.arrived) < number:
                self._changed.clear()
                await self._changed.wait()
        return self.arrived


def play(handler: Handler, scene: Callable[[Server, Peer], Awaitable[None]]) -> None:
    async def act() -> None:
        async with Server(handler) as server, Peer(server.port) as peer:
            await scene(server, peer)

    asyncio.run(act())


def test_a_lane_keeps_its_order_on_one_connection() -> None:
    async def handler(head: str, body: bytes) -> bytes:
        assert "x-name: text" in head
        return ok(head.split()[1].encode())

    async def scene(server: Server, peer: Peer) -> None:
        peer.ask(*(request(f"t{n}", path=f"/{n}") for n in range(20)))
        arrived = await peer.wait_for(20)
        assert arrived == [[f"t{n}".encode(), b"200", f"/{n}".encode()] for n in range(20)]
        assert server.connections == 1

    play(handler, scene)


def test_lanes_do_not_wait_for_each_other() -> None:
    free = asyncio.Event()

    async def handler(head: str, body: bytes) -> bytes:
        if head.startswith("POST /slow"):
            await free.wait()
        return ok()

    async def scene(server: Server, peer: Peer) -> None:
        peer.ask(request("slow", "a", path="/slow"), request("quick", "b"))
        assert (await peer.wait_for(1))[0][0] == b"quick"
        free.set()
        await peer.wait_for(2)

    play(handler, scene)


def test_a_request_whose_connection_is_cut_is_made_again() -> None:
    failures = iter([True, True, False])

    async def handler(head: str, body: bytes) -> bytes | None:
        return None if next(failures) else ok(b"at last")

    async def scene(server: Server, peer: Peer) -> None:
        peer.ask(request("t"))
        assert await peer.wait_for(1) == [[b"t", b"200", b"at last"]]
        assert len(server.asked) == 3

    play(handler, scene)


def test_the_same_tag_again_is_the_same_request_while_it_is_under_way() -> None:
    async def handler(head: str, body: bytes) -> bytes:
        return ok()

    async def scene(server: Server, peer: Peer) -> None:
        peer.ask(request("t"), request("t"), request("u"))
        await peer.wait_for(2)
        assert len(server.asked) == 2
        peer.ask(request("t"))
        await peer.wait_for(3)

    play(handler, scene)


def test_a_broker_that_is_not_there_yet_is_asked_when_it_is() -> None:
    async def handler(head: str, body: bytes) -> bytes:
        return ok()

    async def act() -> None:
        async with Server(handler) as server:
            port = server.port
        async with Peer(port) as peer:
            peer.ask(request("t"))
            late = Server(handler)
            late._server = await asyncio.start_server(late._serve, "127.0.0.1", port)
            assert (await peer.wait_for(1))[0][:2] == [b"t", b"200"]
            late._server.close()

    asyncio.run(act())


def test_a_stream_opens_first_and_goes_on_after_the_last_event_when_it_is_cut() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

    async def handler(said: str, body: bytes) -> bytes:
        if said.startswith("POST"):
            return ok()
        seen = [x.split(": ")[1] for x in said.split("\r\n") if x.startswith("last-event-id")]
        number = int(seen[0]) + 1 if seen else 1
        return head + f": hi\n\nid: {number}\nevent: e\ndata: {{}}\n\n".encode()

    class Cutting(Server):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            said = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(said.split("\r\n")[0])
            writer.write(await handler(said, b""))
            writer.close()

    async def act() -> None:
        async with Cutting(handler) as server, Peer(server.port) as peer:
            peer.ask(request("s", "", "first"), request("t"))
            arrived = await peer.wait_for(5)
            assert arrived[0] == [b"s", b"open"]
            events = [frames for frames in arrived if frames[0] == b"s"]
            assert events[1] == [b"s", b"event", b"e", b"{}"]
            assert [b"s", b"open"] in events[2:]
            assert server.asked[0].startswith("GET")

    asyncio.run(act())


def test_a_last_request_is_sent_after_all_others_and_before_the_close() -> None:
    async def handler(head: str, body: bytes) -> bytes:
        await asyncio.sleep(0.02)
        return ok()

    async def act() -> None:
        async with Server(handler) as server:
            async with Peer(server.port) as peer:
                peer.ask(request("leave", "", "last", "/leave"))
                peer.ask(*(request(f"t{n}", f"lane{n % 3}") for n in range(6)))
            assert len(server.asked) == 7
            assert server.asked[-1] == "GET /leave"

    asyncio.run(act())


def test_an_answer_that_breaks_off_is_no_refusal_and_is_asked_for_again() -> None:
    async def act() -> None:
        asked: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
            writer.write(half if len(asked) == 1 else ok())
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with Peer(server.sockets[0].getsockname()[1]) as peer:
            peer.ask(request("a"))
            refusals = {peer.transport.refusal}
            while not peer.arrived:
                await asyncio.sleep(0.01)
                refusals.add(peer.transport.refusal)
            assert refusals == {""}
            assert len(asked) == 2
        server.close()

    asyncio.run(act())


def test_a_request_moves_on_to_the_next_address_when_a_connection_fails() -> None:
    async def cut(head: str, body: bytes) -> None:
        return None

    async def name_host(head: str, body: bytes) -> bytes:
        return ok(next(x for x in head.split("\r\n") if x.startswith("host")).encode())

    async def act() -> None:
        async with (
            Server(cut) as bad,
            Server(name_host) as good,
            Peer(bad.port, good.port) as peer,
        ):
            peer.ask(request("a"))
            arrived = await peer.wait_for(1)
            assert arrived == [[b"a", b"200", f"host: 127.0.0.1:{good.port}".encode()]]
            assert len(bad.asked) == 1

    asyncio.run(act())


def test_a_silent_address_is_left_when_the_caller_says_so() -> None:
    asked = asyncio.Event()

    async def hang(head: str, body: bytes) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    async def answer(head: str, body: bytes) -> bytes:
        return ok(b"yes")

    async def act() -> None:
        async with Server(hang) as bad, Server(answer) as good, Peer(bad.port, good.port) as peer:
            peer.ask(request("a"))
            await asked.wait()
            peer.transport.move_on()
            assert await peer.wait_for(1) == [[b"a", b"200", b"yes"]]

    asyncio.run(act())


def test_a_token_in_a_file_is_read_for_each_request(tmp_path: Path) -> None:
    file, seen = tmp_path / "token.key", []

    async def handler(head: str, body: bytes) -> bytes:
        seen.append(next(x for x in head.split("\r\n") if x.lower().startswith("authorization")))
        return ok()

    async def act() -> None:
        async with Server(handler) as server:
            peer = Peer(server.port)
            peer.transport = HttpRequester(f"tcp://127.0.0.1:{server.port}", token_file=file)
            async with peer:
                with pytest.raises(OSError, match="No such file"):
                    peer.transport._credentials()
                assert "cannot read the token" in peer.transport.connection_hint
                file.write_text("first\n")
                peer.ask(request("t1"))
                await peer.wait_for(1)
                file.write_text("second\n")
                peer.ask(request("t2"))
                await peer.wait_for(2)

    asyncio.run(act())
    assert [line.partition(": ")[2] for line in seen] == ["Bearer first", "Bearer second"]


def test_a_token_in_a_file_leaves_this_machine_only_over_tls(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only over TLS"):
        HttpRequester("tcp://broker.example:80", token_file=tmp_path / "token.key")
