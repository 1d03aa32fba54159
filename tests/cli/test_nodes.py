"""`dragoman nodes`; with real nodes it is in the interop suite."""

import json

from tests.cli.conftest import Run


def test_a_broker_without_nodes_says_so(run: Run) -> None:
    assert run("nodes", "list")[1].strip() == "no compute nodes"
    assert json.loads(run("nodes", "list", "--json")[1]) == []


def test_approving_or_rejecting_an_unknown_node_is_refused(run: Run) -> None:
    for verb in ("approve", "reject"):
        code, _, words = run("nodes", verb, "n-9")
        assert code == 1
        assert "there is no compute node 'n-9'" in words
