"""The labels with which a worker tells its broker how it works."""

from collections.abc import Mapping, Sequence
from typing import Final

from dragoman.model.labels import ANNOUNCED, PREFETCH
from dragoman.model.target import write_names
from dragoman.sdk.manage import LABEL

#: Jobs that may wait for each job that runs: so one turn of the loops carries many of them.
_PREFETCH_EACH: Final = 8


def worker_labels(
    own: Mapping[str, str] | None,
    resources: Sequence[str],
    concurrency: int,
    prefetch: int | None,
) -> dict[str, str]:
    """Return the user's labels and those that announce resources and prefetch."""
    return {
        **LABEL,
        **(own or {}),
        **_resources_label(resources),
        **_prefetch_label(concurrency, prefetch),
    }


def _resources_label(resources: Sequence[str]) -> dict[str, str]:
    """Return the label that announces a worker's own resources."""
    return {ANNOUNCED: write_names(resources)} if resources else {}


def _prefetch_label(concurrency: int, prefetch: int | None) -> dict[str, str]:
    """Return the label that lets the broker send jobs before a thread is free."""
    wanted = _PREFETCH_EACH * concurrency if prefetch is None else prefetch
    return {PREFETCH: str(wanted)} if wanted > 0 else {}
