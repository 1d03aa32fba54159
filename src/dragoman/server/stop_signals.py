"""Signals that stop the process."""

import asyncio
import signal
import threading
from collections.abc import Callable


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Stop on signals. In a thread of another program, that program handles signals."""
    if threading.current_thread() is not threading.main_thread():
        return
    running = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(number, stop)
