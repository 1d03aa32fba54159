#!/usr/bin/env python3
"""Write the Grafana dashboard: `scripts/grafana_dashboard.py > deploy/grafana/dragoman.json`."""

# Queries are read more easily on one line.
# ruff: noqa: E501

import json
import sys
from typing import Any

RATE = "$__rate_interval"
#: Title, unit, and (legend, expression) of each panel.
PANELS: list[tuple[str, str, list[tuple[str, str]]]] = [
    (
        "Jobs a second",
        "ops",
        [
            ("taken", f"sum(rate(dragoman_jobs_submitted_total[{RATE}]))"),
            ("{{state}}", f"sum by (state) (rate(dragoman_jobs_ended_total[{RATE}]))"),
        ],
    ),
    (
        "Time of a job",
        "s",
        [
            (
                f"{share} %",
                f"histogram_quantile({share / 100}, sum by (le) (rate(dragoman_job_total_seconds_bucket[{RATE}])))",
            )
            for share in (50, 95, 99)
        ],
    ),
    ("Waiting", "short", [("{{service}}", "dragoman_service_queued")]),
    ("Oldest waiting job", "s", [("{{service}}", "dragoman_service_oldest_seconds")]),
    (
        "Time in the queue, 95 %",
        "s",
        [
            (
                "{{service}}",
                f"histogram_quantile(0.95, sum by (le, service) (rate(dragoman_job_queue_seconds_bucket[{RATE}])))",
            ),
        ],
    ),
    (
        "Time at a worker, 95 %",
        "s",
        [
            (
                "{{service}}",
                f"histogram_quantile(0.95, sum by (le, service) (rate(dragoman_job_run_seconds_bucket[{RATE}])))",
            ),
        ],
    ),
    ("Workers", "short", [("{{dialect}} {{status}}", "dragoman_workers")]),
    (
        "Faults a second",
        "ops",
        [("{{code}}", f"sum by (code) (rate(dragoman_faults_total[{RATE}]))")],
    ),
    (
        "Attempts a second",
        "ops",
        [
            ("sent", f"sum(rate(dragoman_attempts_total[{RATE}]))"),
            ("lost", f"rate(dragoman_attempts_requeued_total[{RATE}])"),
        ],
    ),
    (
        "Bridges",
        "ops",
        [
            (
                "{{client}} to {{worker}}",
                f"sum by (client, worker) (rate(dragoman_bridge_jobs_total[{RATE}]))",
            )
        ],
    ),
    (
        "Append to the ledger",
        "s",
        [
            (
                f"{share} %",
                f"histogram_quantile({share / 100}, sum by (le) (rate(dragoman_ledger_append_seconds_bucket[{RATE}])))",
            )
            for share in (50, 99)
        ],
    ),
    (
        "Records in an fsync",
        "short",
        [
            (
                "mean",
                f"rate(dragoman_ledger_append_records_sum[{RATE}]) / rate(dragoman_ledger_append_records_count[{RATE}])",
            ),
        ],
    ),
    (
        "Loop lag, 99 %",
        "s",
        [
            (
                "lag",
                f"histogram_quantile(0.99, sum by (le) (rate(dragoman_loop_lag_seconds_bucket[{RATE}])))",
            )
        ],
    ),
    (
        "Ledger and disk",
        "bytes",
        [("ledger", "dragoman_ledger_bytes"), ("disk free", "dragoman_ledger_disk_free_bytes")],
    ),
    ("Records not exported", "short", [("records", "dragoman_ledger_unexported_records")]),
    (
        "Refused and denied a second",
        "ops",
        [
            (
                "{{link}}: {{reason}}",
                f"sum by (link, reason) (rate(dragoman_link_refused_total[{RATE}]))",
            ),
            ("denied", f"rate(dragoman_denied_total[{RATE}])"),
            ("submissions refused", f"rate(dragoman_jobs_refused_total[{RATE}])"),
        ],
    ),
    (
        "Messages a second",
        "ops",
        [
            ("{{link}} in", f"sum by (link) (rate(dragoman_link_received_total[{RATE}]))"),
            ("{{link}} out", f"sum by (link) (rate(dragoman_link_sent_total[{RATE}]))"),
        ],
    ),
    (
        "CPU and memory",
        "short",
        [
            ("CPU, cores", f"rate(process_cpu_seconds_total[{RATE}])"),
            ("memory, GiB", "process_resident_memory_bytes / 2^30"),
        ],
    ),
]
SOURCE = {"type": "prometheus", "uid": "${source}"}


def panel(number: int, title: str, unit: str, queries: list[tuple[str, str]]) -> dict[str, Any]:
    """Return one panel: three in a row."""
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {"h": 8, "w": 8, "x": 8 * (number % 3), "y": 8 * (number // 3)},
        "fieldConfig": {
            "defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 8}},
            "overrides": [],
        },
        "targets": [
            {
                "refId": chr(65 + i),
                "expr": text,
                "legendFormat": legend,
                "exemplar": "_bucket" in text,
                "datasource": SOURCE,
            }
            for i, (legend, text) in enumerate(queries)
        ],
    }


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    return {
        "title": "Dragoman",
        "uid": "dragoman",
        "schemaVersion": 39,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}
            ]
        },
        "panels": [panel(i, *each) for i, each in enumerate(PANELS)],
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=1)
    sys.stdout.write("\n")
