"""Labels of memo01 workers: READY lists services only, so labels are written as service names.

`label:KEY=VALUE` among a worker's services is a label. Upstream's broker offers a service of that
name, which does no harm.
"""

from collections.abc import Iterable, Mapping
from typing import Final

_PREFIX: Final = "label:"


def write_labels(labels: Mapping[str, str]) -> list[str]:
    """Write labels as service names."""
    return [f"{_PREFIX}{key}={label}" for key, label in labels.items()]


def read_labels(names: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Separate services and labels."""
    services, labels = [], {}
    for name in names:
        key, mark, label = name.removeprefix(_PREFIX).partition("=")
        if name.startswith(_PREFIX) and mark and key:
            labels[key] = label
        else:
            services.append(name)
    return services, labels
