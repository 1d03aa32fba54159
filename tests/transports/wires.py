"""An asyncio transport without a socket."""

import asyncio


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reads = True
        self.is_aborted = False
        self.is_closed = False
        #: Bytes that have not left, as somebody who tests may say.
        self.unsent = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.is_aborted or self.is_closed

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True

    def take(self) -> bytes:
        """Return what was written since the last time."""
        written, self.written = self.written, b""
        return written
