"""The period that a step changes, by its new records and by the later horizon. Pure."""

from dataclasses import dataclass
from datetime import date, datetime


@dataclass(frozen=True)
class StepPeriod:
    """From the first minute that can change to the newest instant."""

    since: datetime
    horizon: datetime

    @property
    def since_day(self) -> date:
        """The first day that can change."""
        return self.since.date()


def period_of(earliest: datetime, latest: datetime, former: datetime | None) -> StepPeriod:
    """Return the period of new records; `former` is the horizon of the tables so far.

    Open intervals are measured up to the horizon, so they change from the former one on.
    """
    touched = min(earliest, former or earliest)
    return StepPeriod(touched.replace(second=0, microsecond=0), max(latest, former or latest))
