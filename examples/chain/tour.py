"""Three services, two dialects, a client of a third: python -m examples.chain.tour DCP ZSS NFP."""

import sys

from dragoman import Client, JobContext, Worker


def tour(dcp: str, zss: str, nfp: str) -> str:
    """Start the services, send one request through all of them, return the answer."""
    fetch = Worker(dcp, service="fetch")
    parse = Worker(zss, service="parse")
    store = Worker(dcp, service="store")

    @fetch.task
    def get(job: JobContext, page: str) -> None:
        job.forward("parse", "words", text=f"the text of {page}")

    @parse.task
    def words(job: JobContext, text: str) -> None:
        job.forward("store", "keep", words=text.split())

    @store.task
    def keep(words: list[str]) -> str:
        return f"kept {len(words)} words"

    with fetch, parse, store, Client(nfp) as client:
        answer: str = client.options(timeout=30).call("fetch", "get", page="home")
        return answer


if __name__ == "__main__":
    print(tour(*sys.argv[1:4]))
