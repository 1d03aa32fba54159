"""The verdict: client lists against answers and ledger, memory slope, descriptors, errors."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dragoman.model.record import Kind, Record
from dragoman.testing.soak.load import STRICT, CallerTally

_MIB: Final = 2**20
#: Allowed memory growth per minute of a warm broker process.
FLAT: Final = 2 * _MIB
#: Minutes of samples that a slope needs. A shorter soak shows its slope without a verdict.
LONG_ENOUGH: Final = 2.0
#: Allowance for connections that are being opened.
_SPARE_FILES: Final = 12


@dataclass
class Sample:
    """One sample of the broker process."""

    minute: float
    resident: int
    files: int


@dataclass
class Figures:
    """The results of a soak."""

    tallies: Sequence[CallerTally]
    faults: Counter[str]
    #: Samples of the last process after its warm-up.
    samples: Sequence[Sample]
    #: How often each job of the ledger ended.
    ended: Counter[str]
    states: Counter[str]
    open_jobs: int
    internal_errors: int
    seconds: float
    problems: list[str] = field(default_factory=list)


def read_ledger(records: Iterable[Record]) -> tuple[Counter[str], Counter[str], int]:
    """Count how often each job ended, in which states, and how many have not ended."""
    ended: Counter[str] = Counter()
    states: Counter[str] = Counter()
    taken: set[str] = set()
    for record in records:
        if record.kind == Kind.SUBMITTED:
            taken.add(record.job)
        elif record.kind == Kind.ENDED:
            ended[record.job] += 1
            states[record.state] += 1
    return ended, states, len(taken - set(ended))


def slope(samples: Sequence[Sample]) -> float:
    """Return the growth of memory per minute by least squares; 0 without enough samples."""
    if len(samples) < 3:
        return 0.0
    mean_x = sum(s.minute for s in samples) / len(samples)
    mean_y = sum(s.resident for s in samples) / len(samples)
    spread = sum((s.minute - mean_x) ** 2 for s in samples)
    if not spread:
        return 0.0
    return sum((s.minute - mean_x) * (s.resident - mean_y) for s in samples) / spread


def judge(found: Figures) -> list[str]:
    """Return every failed check."""
    return [
        *found.problems,
        *_client_problems(found),
        *_ledger_problems(found),
        *_process_problems(found),
    ]


def _client_problems(found: Figures) -> Iterable[str]:
    for tally in found.tallies:
        yield from (f"lost: {words}" for words in tally.lost[:3])
        if tally.wrong:
            yield f"{tally.dialect}: {tally.wrong} answers were wrong"
        if tally.answered + len(tally.lost) != tally.asked:
            yield f"{tally.dialect}: {tally.asked} asked, {tally.answered} answered"
        if not tally.answered:
            yield f"{tally.dialect}: no job was answered"


def _ledger_problems(found: Figures) -> Iterable[str]:
    twice = [job for job, times in found.ended.items() if times > 1]
    if twice:
        yield f"{len(twice)} jobs ended more than once, {twice[0]} for one"
    if found.open_jobs:
        yield f"{found.open_jobs} jobs of the ledger have not ended"
    for tally in found.tallies:
        missing = [job for job in tally.jobs if job not in found.ended]
        if tally.dialect in STRICT and missing:
            yield f"{tally.dialect}: {len(missing)} answered jobs are not in the ledger"


def _process_problems(found: Figures) -> Iterable[str]:
    if found.internal_errors:
        yield f"{found.internal_errors} internal errors in the broker's log"
    if found.samples:
        first, last = found.samples[0], found.samples[-1]
        steep, minutes = slope(found.samples), last.minute - first.minute
        if steep > FLAT and minutes >= LONG_ENOUGH:
            allowed = f"{FLAT / _MIB:.1f} are allowed"
            yield f"memory grows by {steep / _MIB:.1f} MiB a minute; {allowed}"
        if last.files > first.files + _SPARE_FILES:
            yield f"descriptors went from {first.files} to {last.files}"


def describe(found: Figures) -> str:
    """Return the results as text."""
    lines = [f"{found.seconds:.0f} s, faults: {_counts(found.faults)}"]
    lines += (
        f"  {t.dialect:5} asked {t.asked:6}, answered {t.answered:6}, wrong {t.wrong},"
        f" lost {len(t.lost)}, retried {t.retries}, slowest {t.slowest:.1f} s"
        for t in found.tallies
    )
    lines.append(f"  ledger: {_counts(found.states)}; open {found.open_jobs}")
    lines += _memory_lines(found.samples)
    lines.append(f"  internal errors {found.internal_errors}")
    return "\n".join(lines)


def _memory_lines(samples: Sequence[Sample]) -> Iterable[str]:
    if not samples:
        return
    first, last = samples[0], samples[-1]
    minutes = last.minute - first.minute
    verdict = f"at most {FLAT / _MIB:+.2f}" if minutes >= LONG_ENOUGH else "too short to judge"
    yield (
        f"  broker, one process for {minutes:.1f} minutes: {first.resident / _MIB:.0f} ->"
        f" {last.resident / _MIB:.0f} MiB, {slope(samples) / _MIB:+.2f} MiB a minute ({verdict});"
        f" descriptors {first.files} -> {last.files}"
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counter.items()) or "none"
