"""Call a memoised service twice: python -m examples.memoised.tour NFP."""

import sys

from dragoman import Client, Worker


def tour(nfp: str) -> tuple[int, int]:
    """Make the same call twice; return the answer and how often the function ran."""
    worker = Worker(nfp, service="slow")
    runs = []

    @worker.task
    def square(n: int) -> int:
        runs.append(n)
        return n * n

    with worker, Client(nfp) as client:
        slow = client.options(timeout=30).service("slow")
        first, second = slow.square(n=12), slow.square(n=12)
    assert first == second
    return first, len(runs)


if __name__ == "__main__":
    answer, times = tour(sys.argv[1])
    print(f"{answer}, computed {times} time(s) for two calls")
