"""Draws the pictures of the pages: `python -m scripts.pictures` writes `docs/images/*.svg`.

They need no script and no other machine: a browser, a repository's site and a printed page show
them. The paper is white, so they are readable on a dark page, too.
"""

import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
PLAIN, PURE, DISK = ("#eef1fb", "#3f51b5"), ("#e6f4ea", "#2e7d32"), ("#fff4e0", "#b26a00")
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
    'role="img" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="13">\n'
    "<title>{title}</title>\n"
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#444"/></marker></defs>\n'
    '<rect width="{w}" height="{h}" rx="8" fill="#fff"/>\n'
)


class Picture:
    """One picture: boxes, panels and arrows at given places."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self._parts = [_HEAD.format(w=width, h=height, title=escape(title))]

    def text(
        self, x: float, y: float, words: str, *, bold: bool = False, anchor: str = "middle"
    ) -> None:
        """Write one line around a point."""
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="#222"{weight}>'
            f"{escape(words)}</text>\n"
        )

    def panel(self, x: int, y: int, w: int, h: int, title: str) -> None:
        """Draw a frame with a title above its boxes."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="#fafafa" '
            'stroke="#999" stroke-dasharray="4 3"/>\n'
        )
        self.text(x + w / 2, y + 19, title, bold=True)

    def box(
        self, x: int, y: int, w: int, h: int, *lines: str, look: tuple[str, str] = PLAIN
    ) -> None:
        """Draw a box; its first line is bold if there are more."""
        fill, edge = look
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="5" fill="{fill}" '
            f'stroke="{edge}"/>\n'
        )
        top = y + h / 2 - (len(lines) - 1) * 8 + 4.5
        for n, line in enumerate(lines):
            self.text(x + w / 2, top + n * 16, line, bold=n == 0 and len(lines) > 1)

    def arrow(
        self,
        x1: int,
        y1: int,
        x2: int,
        y2: int,
        words: str = "",
        *,
        both: bool = False,
        dashed: bool = False,
    ) -> None:
        """Draw an arrow; its words stand above its middle."""
        more = ' marker-start="url(#tip)"' if both else ""
        more += ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#444" '
            f'marker-end="url(#tip)"{more}/>\n'
        )
        if words and x1 == x2:
            self.text(x1 + 8, (y1 + y2) / 2 + 4, words, anchor="start")
        elif words:
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 6, words)

    def svg(self) -> str:
        """Return the file."""
        return "".join([*self._parts, "</svg>\n"])


def overview() -> Picture:
    """Draw who talks to whom."""
    p = Picture("Clients and workers of every protocol, the broker, its ledger", 760, 396)
    peers = ("NFP", "DCP", "ZSS", "memo01", "MDP", "HTTP")
    p.panel(10, 10, 150, 280, "clients")
    p.panel(600, 10, 150, 280, "workers")
    for n, name in enumerate(peers):
        p.box(25, 40 + n * 40, 120, 32, name)
    for n, name in enumerate((*peers[:5], "NCL nodes", "HTTP")):
        p.box(615, 38 + n * 35, 120, 29, name)
    p.panel(230, 10, 300, 280, "one broker")
    p.box(255, 45, 250, 86, "core", "queues, targets, leases,", "retries, cancel", look=PURE)
    p.box(255, 185, 250, 86, "ledger", "every state change,", "numbered and on disk", look=DISK)
    p.arrow(380, 131, 380, 185, "write, then send")
    p.arrow(160, 88, 255, 88, "jobs, results", both=True)
    p.arrow(505, 88, 600, 88, "work, results", both=True)
    p.box(230, 340, 300, 46, "Spark", "tables, audit, accounts, reports")
    p.arrow(380, 290, 380, 340, "exported as Parquet")
    return p


def job_states() -> Picture:
    """Draw the states of a job."""
    p = Picture("The states of a job", 760, 250)
    p.box(20, 90, 110, 50, "submitted")
    p.box(200, 90, 110, 50, "queued")
    p.box(420, 90, 110, 50, "running")
    p.arrow(130, 115, 200, 115, "on disk")
    p.arrow(310, 104, 420, 104, "a worker is free")
    p.arrow(420, 128, 310, 128, dashed=True)
    p.text(365, 146, "worker lost")
    final = ("succeeded", "failed", "expired", "cancelled", "dead")
    p.panel(600, 10, 150, 230, "final, for ever")
    for n, name in enumerate(final):
        p.box(620, 40 + n * 39, 110, 31, name, look=PURE if n == 0 else DISK)
    for n in range(5):
        p.arrow(530, 115, 618, 56 + n * 39)
    p.arrow(255, 140, 255, 200)
    p.text(255, 218, "never ran: expired, cancelled, refused")
    return p


def layers() -> Picture:
    """Draw the layers of the source."""
    p = Picture("The layers of the source: each imports only from below", 760, 396)
    rows: tuple[tuple[tuple[str, str, tuple[str, str]], ...], ...] = (
        (("cli", "the dragoman command", PLAIN),),
        (
            ("server", "loop, links, wiring", PLAIN),
            ("web", "API, dashboard", PLAIN),
            ("sdk", "Client and Worker", PLAIN),
            ("spark, pipeline", "read segments", PLAIN),
            ("testing", "seeded simulation", PLAIN),
        ),
        (
            ("transports", "ZeroMQ, NNG, NATS", PLAIN),
            ("ledger", "SQLite, Parquet", DISK),
            ("services", "built-in workers", PLAIN),
            ("security", "keys, policy, gate", PLAIN),
        ),
        (("dialects", "one folder each: nfp, dcp, zss, memo01, ncl, mdp, http", PURE),),
        (("core", "a pure function: events in, effects out", PURE),),
        (("model", "names, jobs, targets, terms, faults, bodies, the record", PURE),),
    )
    for n, row in enumerate(rows):
        width = (740 - 8 * (len(row) - 1)) // len(row)
        for m, (name, words, look) in enumerate(row):
            p.box(10 + m * (width + 8), 10 + n * 58, width, 50, name, words, look=look)
    p.text(380, 374, "Imports go down. Green: no clock, socket, disk or await.")
    return p


def request() -> Picture:
    """Draw one request on its way."""
    p = Picture("A request from an NFP client to a memo01 worker", 760, 520)
    names = ("NFP client", "nfp side", "core", "ledger", "memo01 side", "memo01 worker")
    at = [70 + n * 124 for n in range(6)]
    for x, name in zip(at, names, strict=True):
        p.box(x - 56, 10, 112, 30, name, look=DISK if name == "ledger" else PLAIN)
        p.arrow(x, 40, x, 510, dashed=True)
    steps: Sequence[tuple[int, int, str]] = (
        (5, 4, "READY"),
        (4, 2, "WorkerJoined, credit 1"),
        (0, 1, "POST"),
        (1, 2, "JobSubmitted"),
        (2, 3, "submitted,"),
        (2, 3, "dispatched"),
        (1, 0, "dispatched"),
        (4, 5, "JOB"),
        (5, 4, "RESULT"),
        (4, 2, "ReplyReceived, credit 1"),
        (2, 3, "ended"),
        (1, 0, "the result"),
    )
    for n, (a, b, words) in enumerate(steps):
        y = 72 + n * 38
        p.arrow(at[a], y, at[b], y, words)
    return p


def mesh() -> Picture:
    """Draw two brokers that work for each other."""
    p = Picture("Two linked brokers", 760, 210)
    p.box(10, 60, 100, 40, "NFP client")
    p.panel(180, 10, 200, 180, "west")
    p.box(200, 45, 160, 60, "broker west", "owns job j1")
    p.box(200, 120, 160, 56, "ledger", "j1 to east/math", look=DISK)
    p.panel(500, 10, 130, 180, "east")
    p.box(510, 45, 110, 60, "broker east")
    p.box(510, 120, 110, 56, "ledger", "j1 from west", look=DISK)
    p.box(670, 60, 80, 40, "worker")
    p.arrow(110, 80, 200, 80, "job j1")
    p.arrow(360, 65, 510, 65, "work j1")
    p.arrow(510, 95, 360, 95, "its result", dashed=True)
    p.arrow(620, 80, 670, 80)
    return p


def cluster() -> Picture:
    """Draw three nodes with one ledger."""
    p = Picture("A cluster of three nodes", 760, 330)
    for n, (name, role, what) in enumerate(
        (
            ("machine b", "standby", "passes connections on"),
            ("machine a", "leader", "broker, copy of the ledger"),
            ("machine c", "standby", "passes connections on"),
        )
    ):
        x = 20 + n * 255
        p.box(x + 40, 10, 130, 32, "peers")
        p.arrow(x + 105, 42, x + 105, 105)
        p.panel(x, 70, 210, 190, name)
        p.box(x + 10, 105, 190, 56, role, what, look=PURE if n == 1 else PLAIN)
        p.box(x + 10, 195, 190, 50, "nats-server", "copy of the stream", look=DISK)
        p.arrow(x + 105, 161, x + 105, 195, dashed=n != 1)
    p.arrow(220, 133, 285, 133)
    p.arrow(530, 133, 485, 133)
    p.arrow(220, 220, 285, 220, both=True)
    p.arrow(475, 220, 540, 220, both=True)
    p.text(
        380, 290, "The leader writes. A write counts when two of the three nodes have it on disk."
    )
    p.text(380, 312, "If the leader fails, a standby takes over with everything acknowledged.")
    return p


PICTURES: dict[str, Callable[[], Picture]] = {
    "overview": overview,
    "job-states": job_states,
    "layers": layers,
    "request": request,
    "mesh": mesh,
    "cluster": cluster,
}


def write(folder: Path) -> None:
    """Write all pictures into a folder."""
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    write(FOLDER)
    sys.stdout.write(f"wrote {len(PICTURES)} pictures to {FOLDER}\n")
