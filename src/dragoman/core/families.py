"""Parents and children among the jobs in memory, as a fold of the records.

A child that has ended is held while its parent is open: if the parent's task runs again, it gets
the recorded result. When the parent ends, its children are finished jobs like any others.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from dragoman.core.jobs import Job
from dragoman.model.job import JobState
from dragoman.model.names import JobId


class Families:
    """The children of each job, by position, and the ended ones that are held."""

    def __init__(self, jobs: Mapping[JobId, Job]) -> None:
        self._jobs = jobs
        self._children: dict[JobId, dict[int, Job]] = {}
        #: How many children of a job have not ended; no entry: none.
        self._open: Counter[JobId] = Counter()
        #: Ended children of open parents.
        self.held: dict[JobId, Job] = {}

    def add(self, child: Job) -> None:
        """Note a new child."""
        self._children.setdefault(child.parent, {})[child.position] = child
        if not child.is_final:
            self._open[child.parent] += 1

    def child_at(self, parent: JobId, position: int) -> Job | None:
        """Return the child at a position."""
        return self._children.get(parent, {}).get(position)

    def of(self, parent: JobId) -> Iterator[Job]:
        """Yield the children of a job."""
        yield from self._children.get(parent, {}).values()

    def open_of(self, parent: JobId) -> list[Job]:
        """Return the children of a job that have not ended."""
        return [child for child in self.of(parent) if not child.is_final]

    def has_open(self, parent: JobId) -> bool:
        """Tell whether a job has children that have not ended."""
        return parent in self._open

    def release_failed(self, parent: JobId, finish: Callable[[Job], None]) -> None:
        """Free the positions of children that ended without success: a retry submits new ones."""
        for child in list(self.of(parent)):
            if child.is_final and child.state is not JobState.SUCCEEDED:
                self._remove(child)
                finish(child)

    def depth(self, job: Job) -> int:
        """Return how many ancestors of a job are in memory."""
        found = 0
        above = self._jobs.get(job.parent)
        while above is not None:
            found += 1
            above = self._jobs.get(above.parent)
        return found

    def ended(self, job: Job, finish: Callable[[Job], None]) -> None:
        """Hold a job that ended for its open parent, or finish it; then finish its children."""
        parent = self._jobs.get(job.parent) if job.parent else None
        if job.parent:
            self._open[job.parent] -= 1
            if not self._open[job.parent]:
                del self._open[job.parent]
        if parent is not None and not parent.is_final:
            self.held[job.id] = job
        else:
            finish(job)
        if self.held and job.id in self._children:
            for child in self.of(job.id):
                if self.held.pop(child.id, None) is not None:
                    finish(child)

    def forget(self, job: Job) -> None:
        """Drop a job that leaves the memory. Its children stay until they leave it, too."""
        if job.parent:
            self._remove(job)

    def _remove(self, child: Job) -> None:
        self.held.pop(child.id, None)
        siblings = self._children.get(child.parent)
        if siblings is not None and siblings.get(child.position) is child:
            del siblings[child.position]
            if not siblings:
                del self._children[child.parent]

    def restore(self, finished: Iterable[Job]) -> None:
        """Rebuild everything from the jobs, after a snapshot was read."""
        done = {id(job) for job in finished}
        for job in self._jobs.values():
            if not job.parent:
                continue
            parent = self._jobs.get(job.parent)
            is_needed = job.is_final and parent is not None and not parent.is_final
            if is_needed and id(job) in done:
                continue  # it failed, and its position is free
            self.add(job)
            if is_needed:
                self.held[job.id] = job
