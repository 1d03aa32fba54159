"""Jobs from the command line."""

import json
import re

import pytest
from tests.cli.conftest import Run

from dragoman.cli import jobs
from dragoman.dialects.listeners import ListenerSpec, listener
from dragoman.sdk import diagnosis
from dragoman.sdk.blocking import Job


@pytest.mark.parametrize("arguments", ['{"x": 2, "y": 3}', "[2, 3]"])
def test_call_prints_the_answer_as_json(run: Run, arguments: str) -> None:
    assert run("call", "math", "add", arguments) == (0, "5\n", "")


def test_a_single_value_is_the_only_argument(run: Run) -> None:
    assert run("call", "math", "add", "4")[1] == "4\n"


def test_progress_goes_to_standard_error_and_a_stream_to_standard_output(run: Run) -> None:
    code, out, err = run("call", "math", "report")
    assert (code, err) == (0, "w1: half way\n")
    assert out == 'piece"done"\n'


def test_log_lines_are_shown_line_by_line(run: Run) -> None:
    assert run("call", "math", "talk")[2] == "w1: reads\nw1: writes\n"


def test_a_failed_job_exits_with_one_and_says_why(run: Run) -> None:
    code, out, err = run("call", "math", "boom")
    assert code == 1
    # The worker runs in this process, so its log is on standard output, too.
    assert [line for line in out.splitlines() if "task raised" not in line] == []
    assert "RuntimeError: boom" in err


def test_a_job_that_no_worker_took_exits_with_five_and_says_why(run: Run) -> None:
    code, _, err = run("call", "nobody", "x", "--timeout", "0.2")
    assert code == 5
    assert "waited 0.2 s for a worker of service nobody" in err
    assert "may have run" not in err


def test_a_call_that_waits_says_what_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_EXPLAIN_AFTER", 0.05)
    _, _, err = run("call", "nobody", "x", "--timeout", "3")
    assert err.startswith("waiting: no worker offers nobody; start one (job ")


def test_a_call_in_another_dialect_ends_in_time_and_names_the_port(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_EXPLAIN_AFTER", 0.05)
    monkeypatch.setattr(jobs, "_MARGIN", 0.5)
    port = int(url.rpartition(":")[2])
    nfp = ListenerSpec("nfp", "nfp", port, "NFP clients and workers")
    monkeypatch.setattr(diagnosis, "LISTENERS", (nfp, listener("dcp")))
    code, _, err = run("call", "math", "add", "--url", f"dcp://127.0.0.1:{port}", "--timeout", "1")
    assert code == 3
    waiting, end = err.splitlines()
    assert waiting.startswith(f"waiting: no answer yet; {port} is the usual port of NFP clients")
    assert (
        f": no answer; no broker answers dcp at 127.0.0.1:{port}; {port} is the usual port of NFP"
        in end
    )


def test_an_interrupted_call_prints_the_jobs_id(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(job: object, timeout: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "result", interrupted)
    code, _, err = run("call", "math", "add", "[1, 2]")
    assert code == 130
    job = err.split()[2]
    assert f"`dragoman result {job}` waits for it" in err


@pytest.mark.parametrize("command", ["why", "cancel", "result"])
def test_an_unknown_job_exits_with_one(run: Run, command: str) -> None:
    code, out, err = run(command, "nosuch")
    assert (code, out) == (1, "")
    assert "nosuch is not known" in err


def test_an_unknown_state_exits_with_two_and_lists_the_states(run: Run) -> None:
    code, _, err = run("jobs", "--state", "nonsense")
    assert code == 2
    assert err.startswith("dragoman: 'nonsense' is no job state; use queued, running, ")


def test_what_cannot_be_sent_exits_with_two(run: Run) -> None:
    assert run("call", "math", "add", '{"x": NaN}')[0] == 2


def test_wrong_arguments_exit_with_two(run: Run) -> None:
    assert run("call", "math", "add", "{")[0] == 2
    assert run("call")[0] == 2
    assert run("call", "math", "--url", "ftp://x")[0] == 2


def test_submit_result_why_and_cancel_go_by_the_jobs_id(run: Run) -> None:
    code, job, _ = run("submit", "math", "add", '{"x": 1}')
    assert code == 0
    assert run("result", job.strip())[1] == "1\n"
    explained = run("why", job.strip())[1]
    assert explained.startswith("succeeded after")
    assert re.search(
        r"attempt +worker +dialect +took +outcome.*\n +1 +w1 +nfp .* succeeded", explained
    )
    assert json.loads(run("why", job.strip(), "--json")[1])["worker"] == "w1"
    code, waiting, _ = run("submit", "nobody", "x")
    assert "no_service" in run("why", waiting.strip())[1]
    code, said, _ = run("cancel", waiting.strip())
    assert code == 0
    assert "cancel" in said.lower()


def test_an_argument_may_be_called_like_an_option(run: Run) -> None:
    code, _, err = run("call", "math", "add", '{"x": 1, "timeout": 3}')
    assert code == 1
    assert "'timeout'" in err


def test_a_broker_that_is_not_there_exits_with_three(run: Run) -> None:
    code, _, err = run("call", "math", "add", "--url", "nfp://127.0.0.1:9", "--connect", "0.2")
    assert code == 3
    assert "dragoman up" in err


def test_memoised_answers_can_be_forgotten(run: Run) -> None:
    code, out, _ = run("forget", "math")
    assert (code, out) == (0, "dropped the memoised answers of math\n")
    assert '"service": "math"' in run("events", "broker.forgotten")[1]
