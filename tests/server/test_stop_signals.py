"""Signals stop the process only from its main thread."""

import asyncio
import os
import signal
import threading

from dragoman.server.stop_signals import stop_on_signals


def test_a_signal_stops() -> None:
    async def run() -> None:
        stopped = asyncio.Event()
        stop_on_signals(stopped.set)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stopped.wait(), 10)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)

    asyncio.run(run())


def test_in_a_thread_of_another_program_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def run() -> None:
        stop_on_signals(lambda: None)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    thread.join(10)
    assert signal.getsignal(signal.SIGTERM) is before
