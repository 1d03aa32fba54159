"""The attacks that this folder tries, by dialect. The table in docs/security.md is made of it.

A test takes its dialects from here (`tried_in`), so a cell is either tried or says why the dialect
cannot carry the attack.
"""

from typing import Final

from dragoman.model.value import value

DIALECTS: Final = ("nfp", "dcp", "zss", "memo", "ncl", "http", "mdp")
_CURVE: Final = dict.fromkeys(("nfp", "dcp", "zss", "mdp"), "CURVE has no certificates")
_NO_CLIENTS: Final = {"ncl": "NCL has no clients"}


@value
class Attack:
    """One row: what is tried, where the refusal is recorded, and where it cannot be tried."""

    what: str
    recorded: str
    cannot: dict[str, str]


_HANDSHAKE: Final = "count of the listener"
_LEDGER: Final = "`refused` or `denied` with the principal"
ATTACKS: Final = {
    "bad key": Attack("an unknown, pending, expired or revoked key", _HANDSHAKE, {}),
    "no key": Attack("no key at all", _HANDSHAKE, {}),
    "bad certificate": Attack(
        "a certificate of another authority, or an expired one",
        _HANDSHAKE,
        {**_CURVE, "ncl": "nodes prove an nkey"},
    ),
    "bad token": Attack(
        "a token of another issuer or for another audience; a forged, expired or revoked one",
        "`denied`, and count of the listener",
        dict.fromkeys(("nfp", "dcp", "zss", "memo", "ncl", "mdp"), "only HTTP carries tokens"),
    ),
    "false broker": Attack("a broker that has not the right key or certificate", "at the peer", {}),
    "job of another": Attack(
        "reading, cancelling, or submitting again the job of another by its id",
        _LEDGER,
        {**_NO_CLIENTS, "memo": "memo01 has no job ids"},
    ),
    "confusable name": Attack(
        "a service name that looks like an allowed one (Unicode, case, spaces)",
        _LEDGER,
        _NO_CLIENTS,
    ),
    "other target": Attack(
        "a target that the role does not have (all, by name, label or resource)",
        _LEDGER,
        {**_NO_CLIENTS, "memo": "memo01 has no targets"},
    ),
    "registration": Attack("offering a service without the right to", _LEDGER, {}),
    "worker name": Attack(
        "registering under the worker name of another",
        f"{_LEDGER}, or {_HANDSHAKE}",
        {"memo": "the broker names memo01 workers", "zss": "ZSS workers have no names"},
    ),
    "hand-over": Attack(
        "handing a job over to a service that the worker's own key may not use",
        _LEDGER,
        dict.fromkeys(("nfp", "zss", "memo", "ncl", "http", "mdp"), "only DCP hands jobs over"),
    ),
    "flood of requests": Attack("more requests than the limit", _LEDGER, _NO_CLIENTS),
    "flood of strangers": Attack(
        "handshakes of many strangers at once; a known client is served meanwhile", _HANDSHAKE, {}
    ),
}


def tried_in(attack: str) -> list[str]:
    """Return the dialects that can carry an attack."""
    return [dialect for dialect in DIALECTS if dialect not in ATTACKS[attack].cannot]


def markdown() -> str:
    """Return the table of the documentation."""
    head = ["attack", *DIALECTS, "record"]
    rows = [head, ["---"] * len(head)]
    rows += [
        [each.what, *("-" if d in each.cannot else "refused" for d in DIALECTS), each.recorded]
        for each in ATTACKS.values()
    ]
    reasons = sorted({reason for each in ATTACKS.values() for reason in each.cannot.values()})
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{table}\n\nA dash: the dialect cannot carry the attack ({'; '.join(reasons)}).\n"
