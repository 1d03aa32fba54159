"""Every shell block of the pages is typed as it is written, each story on a machine of its own.

A block that no test can run has a comment with the reason before it; they are counted.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.pages.blocks import ROOT, SHELL, Block, blocks, pages, shell_blocks
from tests.pages.terminal import Terminal, can_make_terminals

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not can_make_terminals(), reason="needs Linux name spaces, as root"),
]

#: Blocks that no test runs.
NOT_RUN: Final = 5
#: The pages of the stories below; a new page with a shell block needs a story.
PLAIN: Final = (
    "examples/chain/README.md",
    "examples/compute_node/README.md",
    "examples/dagbox/README.md",
    "examples/events/README.md",
    "examples/http/README.md",
    "examples/ten_lines/README.md",
)
TOLD: Final = {
    *PLAIN,
    "README.md",
    "docs/cluster.md",
    "docs/howto-back-up.md",
    "docs/howto-monitor.md",
    "docs/ledger.md",
    "docs/mesh.md",
    "docs/pipeline.md",
    "docs/queue.md",
    "docs/security-login.md",
    "docs/security-namespaces.md",
    "docs/security-transports.md",
    "docs/security.md",
    "docs/spark.md",
    "docs/tutorial.md",
    "examples/norfab/README.md",
    "examples/memoised/README.md",
    "examples/spark/README.md",
}


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(tmp_path) as terminal:
        yield terminal


def shell(page: str) -> list[Block]:
    return [each for each in blocks(page) if each.language in SHELL and not each.not_run]


def test_every_page_with_a_shell_block_has_a_story() -> None:
    assert {each.page for each in shell_blocks() if not each.not_run} == TOLD
    assert len([each for each in shell_blocks() if each.not_run]) == NOT_RUN


def test_a_block_that_looks_like_commands_says_that_it_is_one() -> None:
    unnamed = [each for page in pages() for each in blocks(page) if not each.language]
    assert [str(each) for each in unnamed if "dragoman " in each.text.split("\n")[0]] == []


@pytest.mark.process
@pytest.mark.parametrize("page", PLAIN)
def test_an_example_runs_as_its_page_says(terminal: Terminal, page: str) -> None:
    said = "".join(terminal.run(block) for block in shell(page))
    expected = {"ten_lines": "5\n", "chain": "kept 4 words", "http": "HELLO"}
    assert expected.get(page.split("/")[1], "") in said


@pytest.mark.process
def test_a_norfab_fabric_runs_without_and_with_curve(tmp_path: Path) -> None:
    for number, block in enumerate(shell("examples/norfab/README.md")):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Terminal(folder) as terminal:
            said = terminal.run(block, seconds=100)
        for name in ("switches-1", "switches-2"):
            assert f'"{name}": "acme 4.2 in zurich"' in said


@pytest.mark.process
def test_the_memoised_function_runs_with_the_settings_of_its_page(terminal: Terminal) -> None:
    settings, commands = blocks("examples/memoised/README.md")
    (terminal.folder / "dragoman.toml").write_text(settings.text)
    terminal.run(commands)


@pytest.mark.process
def test_the_ledger_is_backed_up_verified_restored_and_repaired(terminal: Terminal) -> None:
    terminal.type("dragoman up &")
    terminal.type("dragoman ping --wait 30")
    (block,) = shell("docs/ledger.md")
    said = terminal.run(block, before_2="kill %1\nwait %1\nrm -r dragoman-data")
    assert "sound" in said
    assert "records 1 to" in said


@pytest.mark.process
def test_a_backup_is_tried_and_a_broker_is_watched_as_the_pages_say(terminal: Terminal) -> None:
    terminal.type("dragoman up &")
    terminal.type("dragoman ping --wait 30")
    backup, drill = shell("docs/howto-back-up.md")
    assert "sound" in terminal.run(backup) + terminal.run(drill)
    (watch,) = shell("docs/howto-monitor.md")
    assert "ready" in terminal.run(watch)


@pytest.mark.process
def test_a_cluster_of_three_nodes_hands_over_and_is_verified(terminal: Terminal) -> None:
    (block,) = shell("docs/cluster.md")
    said = terminal.run(block, seconds=120)
    assert "follows" in said
    assert "leads now, instead of" in said
    assert "all copies are equal" in said


@pytest.mark.process
def test_schedules_are_kept_as_the_page_says(terminal: Terminal) -> None:
    terminal.type("dragoman up &")
    terminal.type("dragoman ping --wait 30")
    (block,) = shell("docs/queue.md")
    assert "nightly" in terminal.run(block)


@pytest.mark.process
def test_two_brokers_work_for_each_other_as_the_page_says(terminal: Terminal) -> None:
    (block,) = shell("docs/mesh.md")
    said = terminal.run(block)
    assert "\n5\n" in f"\n{said}"
    assert "this is broker west" in said
    assert "east/math" in said


@pytest.mark.process
def test_the_tutorial_works_from_the_first_block_to_the_last(terminal: Terminal) -> None:
    tasks, *rest = [each for each in blocks("docs/tutorial.md") if not each.not_run]
    (terminal.folder / "photos.py").write_text(tasks.text)
    said = ""
    for block in rest:
        if block.language == "python":
            (terminal.folder / "program.py").write_text(block.text)
            said += terminal.type("python program.py")
        else:
            said += terminal.run(block, seconds=100)
    assert '"file": "beach-64.png"' in said
    assert "harbour-64.png" in said
    assert "\n3\n" in f"\n{said}"


TASKS: Final = "def run(size: int = 1) -> int:\n    return size\n"


@pytest.mark.process
def test_a_policy_with_groups_decides_as_the_page_says(terminal: Terminal) -> None:
    policy = next(each for each in blocks("docs/security-login.md") if "[groups]" in each.text)
    (terminal.folder / "dragoman-data").mkdir()
    (terminal.folder / "dragoman-data" / "policy.toml").write_text(policy.text)
    (block,) = shell("docs/security-login.md")
    assert "allowed: corp:anna (operator, admin, no-vault)" in terminal.run(block)


@pytest.mark.process
def test_tenants_have_namespaces_as_the_page_says(terminal: Terminal) -> None:
    (terminal.folder / "tasks.py").write_text(TASKS)
    (terminal.folder / "globex.toml").write_text("drain = 1\n")
    terminal.type("dragoman init site")
    (section,) = [e for e in blocks("docs/security-namespaces.md") if e.language == "toml"]
    with (terminal.folder / "site" / "dragoman.toml").open("a") as file:
        file.write(f"\n{section.text}")
    terminal.type("export DRAGOMAN_CONFIG=site/dragoman.toml")
    terminal.type("dragoman up &")
    terminal.type("dragoman --key site/admin.key ping --wait 30")
    (block,) = shell("docs/security-namespaces.md")
    said = terminal.run(block)
    assert "allowed: sue (submitter)" in said
    assert "namespace acme: serving" in said
    assert "namespace globex: serving" in said
    assert "resize" not in terminal.type("dragoman --key site/admin.key services")


@pytest.mark.process
def test_a_broker_is_secured_as_the_page_says(terminal: Terminal) -> None:
    (terminal.folder / "tasks.py").write_text(TASKS)
    first, policy, audit = shell("docs/security.md")
    terminal.run(
        first,
        before_1="mkdir -p /mnt/other",
        before_4="dragoman keys new wanda --role worker\n"
        "dragoman --key wanda.key worker tasks --service resize --url nfp://broker.example &\n"
        "dragoman --key /etc/dragoman/admin.key ping resize --wait 30",
    )
    terminal.run(policy)
    commands, rotation = shell("docs/security-transports.md")
    terminal.run(commands)
    assert len(audit.commands()) == 4
    head = terminal.type(audit.commands()[0]).partition("head ")[2].split()[0]
    assert head
    terminal.type(audit.commands()[3])
    terminal.type(audit.commands()[2])
    # The second command has a head of another machine in it.
    terminal.type(audit.commands()[1].replace("4711:9f2c...", head))
    terminal.type("cd /etc/dragoman")
    terminal.run(rotation)


ORDERS: Final = """
import pyarrow, pyarrow.parquet, pathlib
for folder in ("orders", "data/orders"):
    pathlib.Path(folder).mkdir(parents=True)
    rows = {"order_id": [1, 2], "amount": [2.0, 40.0], "day": ["2026-01-05", "2026-01-06"]}
    pyarrow.parquet.write_table(pyarrow.table(rows), folder + "/part.parquet")
"""


#: Each command of these pages starts Spark: minutes, and `tests/spark` covers what they do.
spark_pages = pytest.mark.skipif(
    "DRAGOMAN_PAGES" not in os.environ, reason="takes minutes of Spark: run make pages"
)


@pytest.mark.spark
def test_the_readme_works_from_the_first_block_to_the_last(terminal: Terminal) -> None:
    said = ""
    for block in blocks("README.md"):
        if block.language == "python":
            said += terminal.python(block.text)
        elif block.language in SHELL and not block.not_run:
            said += terminal.run(block, seconds=120)
    assert "no breach found" in said
    assert (terminal.folder / "report.html").exists()
    noise = ("incubator", "log level", "logging level")
    assert not [word for word in noise if word in terminal.log.read_text()]


@pytest.mark.spark
@spark_pages
def test_the_pages_about_the_pipeline_and_spark_work(terminal: Terminal) -> None:
    first, upkeep, _views = shell("docs/pipeline.md")
    for n, command in enumerate(first.commands()):
        terminal.type(command, seconds=150, code=1 if n == 2 else 0)
    terminal.run(upkeep, seconds=120)
    terminal.python(ORDERS)
    terminal.type("dragoman up &")
    terminal.type("dragoman ping --wait 30")
    (block,) = shell("docs/spark.md")
    terminal.run(block, seconds=120, before_1="dragoman ping spark --wait 60")


@pytest.mark.process
def test_a_bill_and_a_notebook_are_made_without_spark(terminal: Terminal) -> None:
    first, _upkeep, views = shell("docs/pipeline.md")
    for command in first.commands()[:2]:
        terminal.type(command, seconds=50)
    terminal.run(views, seconds=50)
    assert "team-1," in (terminal.folder / "bill.csv").read_text()
    assert json.loads((terminal.folder / "ledger.ipynb").read_text())["nbformat"] == 4


@pytest.mark.spark
@spark_pages
def test_the_example_of_spark_works(terminal: Terminal) -> None:
    first, second = shell("examples/spark/README.md")
    terminal.run(first, seconds=200)
    assert json.dumps("band") in terminal.run(second, seconds=120)


def test_what_the_readme_makes_is_ignored_by_git() -> None:
    ignored = (ROOT / ".gitignore").read_text().split()
    assert {"/dragoman-data/", "/report.html", "/scores/", "/enriched/"} <= set(ignored)
