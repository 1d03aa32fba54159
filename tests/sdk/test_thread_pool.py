"""Threads that run tasks."""

import threading

from dragoman.sdk.thread_pool import ThreadPool


def test_work_runs_side_by_side_up_to_the_size_and_ends_on_close() -> None:
    pool = ThreadPool(2, "test")
    both, done = threading.Barrier(2, timeout=10), threading.Event()
    for _ in range(2):
        pool.submit(both.wait)  # type: ignore[arg-type]
    pool.submit(done.set)
    assert done.wait(10)
    threads = pool._threads
    pool.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
        assert thread.daemon


def test_the_pool_keeps_its_size_whatever_its_work_raises() -> None:
    pool = ThreadPool(1, "test")
    done = threading.Event()

    def leave() -> None:
        raise SystemExit(3)

    pool.submit(leave)
    pool.submit(done.set)
    assert done.wait(10)
    pool.close()
