"""How late the loop is."""

import asyncio
import time

from dragoman.server import loop_lag
from dragoman.server.loop_lag import LoopLag


def test_a_blocked_loop_is_late() -> None:
    running = asyncio.new_event_loop()
    lag = LoopLag()

    def block() -> None:
        lag.start()
        # The measurement is due meanwhile, and cannot run before.
        time.sleep(loop_lag.EVERY + 0.05)
        running.call_soon(running.call_soon, running.stop)

    running.call_soon(block)
    running.run_forever()
    lag.stop()
    running.close()
    assert lag.last >= 0.05
