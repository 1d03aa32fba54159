"""Threads that run tasks."""

import threading

from dragoman.sdk.thread_pool import ThreadPool


def test_work_runs_side_by_side_up_to_the_size_and_ends_on_close() -> None:
    pool = ThreadPool(2, "test side")
    both, done = threading.Barrier(2, timeout=10), threading.Event()
    for _ in range(2):
        pool.submit(both.wait)  # type: ignore[arg-type]
    pool.submit(done.set)
    assert done.wait(10)
    threads = [each for each in threading.enumerate() if each.name.startswith("test side ")]
    assert len(threads) == 2
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


def test_a_thread_that_waits_lends_its_place() -> None:
    pool = ThreadPool(1, "test lend")
    inner, outer = threading.Event(), threading.Event()

    def wait_for_other_work() -> None:
        with pool.lend(), pool.lend():
            pool.submit(inner.set)
            assert inner.wait(10)
        outer.set()

    for _ in range(3):
        inner.clear()
        outer.clear()
        pool.submit(wait_for_other_work)
        assert outer.wait(10)
    both = threading.Barrier(2, timeout=0.2)
    broken = threading.Event()

    def meet() -> None:
        try:
            both.wait()
        except threading.BrokenBarrierError:
            broken.set()

    pool.submit(meet)
    pool.submit(meet)
    assert broken.wait(10), "the pool has more threads than its size after the wait"
    pool.close()
