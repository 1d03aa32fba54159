"""The terminal view: a line of figures with a sparkline, a table, and what can be done with a row.

It fits 80 x 24. Requests run in threads, so that a slow broker does not freeze the keys.
"""

from collections.abc import Callable
from typing import Any, Final

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Sparkline, Static

from dragoman.cli.output import duration, local_time
from dragoman.cli.top.source import TopSource
from dragoman.sdk.errors import DragomanError

#: Seconds between two looks.
EVERY: Final = 2.0
#: Steps of the sparkline: ten minutes.
_SPARKS: Final = 60

Column = tuple[str, Callable[[dict[str, Any]], str]]
COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "services": (
        ("service", lambda r: r["name"]),
        ("workers", lambda r: str(r["workers"])),
        ("free", lambda r: str(r["free"])),
        ("running", lambda r: str(r["running"])),
        ("waiting", lambda r: str(r["queued"])),
        ("oldest", lambda r: duration(r["oldest_age"]) if r["oldest_age"] else ""),
    ),
    "workers": (
        ("worker", lambda r: r["name"][:24]),
        ("state", lambda r: r["status"]),
        ("dialect", lambda r: r["dialect"]),
        ("holds", lambda r: str(r["holding"])),
        ("silent", lambda r: duration(r["silent_for"])),
        ("services", lambda r: ", ".join(r["services"])[:24]),
    ),
    "jobs": (
        ("job", lambda r: r["job"][:14]),
        ("state", lambda r: r["state"]),
        ("service", lambda r: r["service"][:14]),
        ("task", lambda r: r["task"][:14]),
        ("worker", lambda r: r["worker"][:14]),
        ("fault", lambda r: r["fault"]),
    ),
}


class Detail(ModalScreen[None]):
    """The story of one job, or the fields of a row."""

    BINDINGS = [Binding("escape,enter,q", "dismiss", "Back")]
    CSS = """
    Detail { align: center middle; }
    Detail Vertical { width: 90%; height: 80%; border: round $primary; padding: 0 1;
      background: $surface; overflow-y: auto; }
    Detail Static { width: 1fr; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Lay out."""
        with Vertical():
            yield Static(self._text, markup=False, id="detail")
        yield Footer()


class TopApp(App[None]):
    """The application."""

    TITLE = "dragoman top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #figures { height: 3; padding: 0 1; }
    #sparks { height: 2; margin: 0 1; }
    #message { height: 1; padding: 0 1; color: $text-warning; }
    DataTable { height: 1fr; }
    """
    BINDINGS = [
        Binding("s", "show('services')", "Services"),
        Binding("w", "show('workers')", "Workers"),
        Binding("j", "show('jobs')", "Jobs"),
        Binding("enter", "detail", "Open", priority=True),
        Binding("y", "why", "Why"),
        Binding("c", "cancel", "Cancel job"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, source: TopSource) -> None:
        super().__init__()
        self._source = source
        self.view = "services"
        self._rows: list[dict[str, object]] = []
        #: The job whose cancel waits for a second key press.
        self._confirming = ""

    def compose(self) -> ComposeResult:
        """Lay out."""
        yield Static("connecting", id="figures", markup=False)
        yield Sparkline([0], id="sparks")
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Static("", id="message", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one(DataTable).focus()
        self.look()
        self.set_interval(EVERY, self.look)

    # --- looking --------------------------------------------------------------------------------

    @work(thread=True, exclusive=True, group="look")
    def look(self) -> None:
        """Read the broker, in a thread."""
        view = self.view
        try:
            overview, rows = self._source.overview(), self._source.rows(view)
        except DragomanError as error:
            self.call_from_thread(self._say, f"{error}; trying again")
            return
        self.call_from_thread(self._draw, view, overview, rows)

    def _draw(self, view: str, overview: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        if view != self.view:
            return
        if not self._confirming:
            self._say("")
        self.query_one("#figures", Static).update(figures(overview))
        self.query_one("#sparks", Sparkline).data = overview["series"]["submitted"][-_SPARKS:]
        table = self.query_one(DataTable)
        cursor = table.cursor_row
        table.clear(columns=True)
        table.add_columns(*(name for name, _ in COLUMNS[view]))
        for row in rows:
            table.add_row(*(text(row) for _, text in COLUMNS[view]))
        table.move_cursor(row=min(cursor, len(rows) - 1) if rows else 0)
        self._rows = rows

    def _say(self, text: str) -> None:
        self.query_one("#message", Static).update(text)

    # --- keys -----------------------------------------------------------------------------------

    def action_show(self, view: str) -> None:
        """Show another table."""
        self.view, self._confirming = view, ""
        self.look()

    def _chosen(self) -> dict[str, Any] | None:
        row = self.query_one(DataTable).cursor_row
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def action_detail(self) -> None:
        """Open the chosen row."""
        row = self._chosen()
        if isinstance(self.screen, Detail):
            self.pop_screen()
        elif row is not None and "job" in row:
            self._story(row["job"])
        elif row is not None:
            self.push_screen(Detail("\n".join(f"{name}: {value}" for name, value in row.items())))

    def action_why(self) -> None:
        """Say why the chosen job is in its state."""
        row = self._chosen()
        if row is not None and "job" in row:
            self._story(row["job"])
        else:
            self._say("choose a job first: press j")

    @work(thread=True, group="story")
    def _story(self, job: str) -> None:
        try:
            why, records = self._source.why(job), self._source.records(job)
        except DragomanError as error:
            self.call_from_thread(self._say, str(error))
            return
        self.call_from_thread(self.push_screen, Detail(story(job, why, records)))

    def action_cancel(self) -> None:
        """Cancel the chosen job, after a second press."""
        row = self._chosen()
        if row is None or "job" not in row:
            self._say("choose a job first: press j")
        elif self._confirming != row["job"]:
            self._confirming = row["job"]
            self._say(f"press c again to cancel {row['job']}")
        else:
            self._confirming = ""
            self._cancel(row["job"])

    @work(thread=True, group="cancel")
    def _cancel(self, job: str) -> None:
        try:
            done = self._source.cancel(job)
        except DragomanError as error:
            self.call_from_thread(self._say, str(error))
            return
        text = "cancelled" if done["cancelled"] else f"it is already {done['state']}"
        self.call_from_thread(self._say, f"{job}: {text}")


def figures(d: dict[str, Any]) -> str:
    """Return the broker's figures in three short lines."""
    totals, latency = d["totals"], d["latency"]
    workers = ", ".join(f"{count} {name}" for name, count in sorted(d["workers"].items())) or "none"
    return (
        f"dragoman {d['version']}, up {duration(d['at'] - d['started_at'])}"
        f"   {d['now']['submitted'] / 10:.1f} jobs/s   loop {duration(d['loop_lag'])} late\n"
        f"running {d['running']}  waiting {d['queued']}  succeeded {totals['succeeded']}"
        f"  failed {totals['failed']}  dead {totals['dead']}   workers: {workers}\n"
        f"time: half {duration(latency['p50'])}, 95 % {duration(latency['p95'])}"
        f", 99 % {duration(latency['p99'])}"
    )


def story(job: str, why: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """Return a job's records as lines, with the reason of its state."""
    lines = [f"job {job}", f"{why['reason']}: {why['words']}", ""]
    for record in records:
        about = [str(record[name]) for name in ("worker", "fault", "detail") if record.get(name)]
        lines.append(f"{local_time(record['at'])}  {record['kind']:<12} {' '.join(about)}")
    return "\n".join(lines)
