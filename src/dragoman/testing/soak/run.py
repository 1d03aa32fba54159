"""One soak: set up, load, faults, wait for open jobs, verdict."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from dragoman.ledger.sqlite import SqliteLedger
from dragoman.server.server import LEDGER_FILE
from dragoman.testing.fabric import Fabric, client_dialects, link_of, worker_dialects
from dragoman.testing.gauges import open_files, read_metrics, resident_bytes
from dragoman.testing.soak.faults import Faults
from dragoman.testing.soak.load import SoakCaller
from dragoman.testing.soak.proxy import Proxy
from dragoman.testing.soak.verdict import Figures, Sample, read_ledger

#: Short heartbeats find lost peers soon; small bounds are reached soon. Frequent faults may cost
#: a job many workers, so `max_attempts` is high.
SETTINGS: Final = (
    "".join(f"[services.soak-{d}]\nmax_attempts = 50\n" for d in worker_dialects())
    + """
[limits]
finished_jobs = 2000
retention = 20
[ledger]
seal_age = 5
[nfp]
beat_every = 1.0
missed_allowed = 6
[dcp]
missed_allowed = 6
missed_allowed_busy = 8
[memo]
beat_every = 1.0
beat_answer = 3.0
[http]
beat_every = 1.0
[ncl]
heartbeat_interval = 1.0
disconnect_timeout = 6.0
grace = 2.0
remember = 500
"""
)
#: Seconds before samples of a process count: a young one still fills its buffers and loads the
#: code that seals segments. In a short soak, a third of the spared time.
_WARM: Final = 120.0
_WARM_SHARE: Final = 1 / 3
_SAMPLE_EVERY: Final = 2.0
_FINISH_WITHIN: Final = 180.0

Say = Callable[[str], None]


class Soak:
    """A fabric whose peers connect through proxies."""

    def __init__(self, folder: Path, seed: int, say: Say) -> None:
        self.fabric = Fabric(folder, SETTINGS)
        self._seed, self._say = seed, say
        self._proxies: dict[str, Proxy] = {}
        self._samples: list[Sample] = []

    def run(self, seconds: float, every: float = 10.0, spared: float = 0.5) -> Figures:
        """Run for `seconds`, with a fault every `every` seconds.

        In the last share `spared` of the time the broker is not killed, so that the memory of one
        process can be measured under all other faults.
        """
        try:
            return self._run(seconds, every, seconds * spared)
        finally:
            for proxy in self._proxies.values():
                proxy.close()
            self.fabric.stop()

    def _run(self, seconds: float, every: float, spared: float) -> Figures:
        workers = self._set_up()
        callers = [
            SoakCaller(d, self._url(d), [f"soak-{w}" for w in worker_dialects()], self._seed)
            for d in client_dialects()
        ]
        faults = Faults(self.fabric, self._proxies, workers, self._seed, every)
        started = time.monotonic()
        for caller in callers:
            caller.start()
        faults.start()
        self._watch(started, seconds - spared, faults, 0.0)
        faults.stop_broker_kills()
        self._say(f"the broker is not killed for the last {spared:.0f} s")
        self._watch(started, seconds, faults, min(_WARM, spared * _WARM_SHARE))
        faults.end()
        self._say("no more faults; waiting for open jobs")
        for caller in callers:
            caller.stop_submitting()
        until = time.monotonic() + _FINISH_WITHIN
        late = [c.tally.dialect for c in callers if not c.end(until - time.monotonic())]
        found = self._count(callers, faults, time.monotonic() - started)
        found.problems += [f"{dialect}: still waiting for answers" for dialect in late]
        return found

    # --- set-up -------------------------------------------------------------------------------

    def _set_up(self) -> dict[str, Callable[[], None]]:
        """Start broker, proxies and workers; return a start function per worker."""
        self.fabric.start_broker()
        for link, endpoint in self.fabric.endpoints.items():
            self._proxies[link] = Proxy(endpoint)
        starts: dict[str, Callable[[], None]] = {}
        for dialect in worker_dialects():
            name = f"soak-{dialect}-1"
            url = self._url(dialect, is_worker=True)
            url += "?heartbeat_interval=1" if dialect == "ncl" else ""
            starts[name] = partial(self.fabric.start_worker, dialect, f"soak-{dialect}", name, url)
            starts[name]()
        self.fabric.wait_for([f"soak-{d}" for d in worker_dialects()])
        self._say(f"a broker, {len(starts)} workers, {len(client_dialects())} clients")
        return starts

    def _url(self, dialect: str, is_worker: bool = False) -> str:
        return f"{dialect}://{self._proxies[link_of(dialect, is_worker)].address}"

    # --- while it runs ------------------------------------------------------------------------

    def _watch(self, started: float, seconds: float, faults: Faults, warm: float) -> None:
        """Sample the broker process and report progress.

        Only samples of the last process count, and only after its warm-up.
        """
        pid, born, reported = 0, started, sum(faults.counts.values())
        while (now := time.monotonic()) < started + seconds and not faults.error:
            if pid != self.fabric.broker_pid:
                pid, born = self.fabric.broker_pid, now
                self._samples.clear()
            elif now - born >= warm:
                self._sample((now - started) / 60)
            if (done := sum(faults.counts.values())) != reported:
                reported = done
                mebibytes = resident_bytes(self.fabric.broker_pid) / 2**20
                self._say(f"{now - started:4.0f} s: {done} faults, broker {mebibytes:.0f} MiB")
            time.sleep(_SAMPLE_EVERY)

    def _sample(self, minute: float) -> None:
        pid = self.fabric.broker_pid
        if resident := resident_bytes(pid):
            self._samples.append(Sample(minute, resident, open_files(pid)))

    def _count(self, callers: list[SoakCaller], faults: Faults, seconds: float) -> Figures:
        problems = [f"a fault failed: {faults.error}"] if faults.error else []
        self._wait_no_open_jobs()
        self._sample(seconds / 60)
        self.fabric.stop()
        ledger = SqliteLedger(self.fabric.data / LEDGER_FILE)
        ended, states, still_open = read_ledger(ledger.read(ledger.first_seq - 1))
        errors = self.fabric.log("broker").read_text(errors="replace").count("internal error")
        tallies = [caller.tally for caller in callers]
        return Figures(
            tallies, faults.counts, self._samples, ended, states, still_open, errors, seconds,
            problems,
        )  # fmt: skip

    def _wait_no_open_jobs(self) -> None:
        """Wait for jobs without a waiting client, such as the slow reader's."""
        until = time.monotonic() + _FINISH_WITHIN
        while time.monotonic() < until:
            if not read_metrics(self.fabric.endpoints["http"])["dragoman_jobs_open", ""]:
                return
            time.sleep(0.2)
