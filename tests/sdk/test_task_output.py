"""What a task prints reaches its job, and the process's own output stays."""

import asyncio
import sys

import pytest

from dragoman.sdk.task_output import captured, install


class Sink:
    def __init__(self) -> None:
        self.pieces: list[tuple[str, bool]] = []

    def __call__(self, text: str, is_error: bool) -> None:
        self.pieces.append((text, is_error))


def test_printed_lines_are_copied_and_still_printed(capsys: pytest.CaptureFixture[str]) -> None:
    install()
    sink = Sink()
    print("before")
    with captured(sink):
        print("one", 2)
        print("oops", file=sys.stderr)
        sys.stdout.write("no end")
    print("after")
    assert sink.pieces == [("one 2\n", False), ("oops\n", True), ("no end", False)]
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("before\none 2\nno endafter\n", "oops\n")


def test_a_line_without_end_is_sent_in_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    install()
    sink = Sink()
    with captured(sink):
        for _ in range(3):
            sys.stdout.writelines(["x" * 3000])
        assert [len(text) for text, _ in sink.pieces] == [6000]
    assert [len(text) for text, _ in sink.pieces] == [6000, 3000]


def test_a_coroutine_and_its_helper_threads_belong_to_the_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    install()
    sink = Sink()

    async def work() -> None:
        await asyncio.to_thread(print, "from a helper")

    with captured(sink):
        asyncio.run(work())
    assert sink.pieces == [("from a helper\n", False)]


def test_installing_twice_copies_once(capsys: pytest.CaptureFixture[str]) -> None:
    install()
    install()
    sink = Sink()
    with captured(sink):
        print("once")
    assert sink.pieces == [("once\n", False)]
    assert capsys.readouterr().out == "once\n"
    assert not sys.stdout.closed
