"""The golden vectors of NCL: bytes of Bacalhau 1.9.3, and one captured conversation."""

import json
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[1] / "vectors" / "ncl" / "vectors.json"
VECTORS: list[dict[str, Any]] = json.loads(PATH.read_text())
BY_LABEL = {vector["label"]: vector for vector in VECTORS}


def body(label: str) -> bytes:
    """Return the whole NATS body of a vector."""
    vector = BY_LABEL[label]
    if "payload_hex" in vector:
        return bytes.fromhex(vector["payload_hex"])
    return str(vector["payload_text"]).encode()


def labels(*prefixes: str) -> list[str]:
    """Return the labels that begin so."""
    return [label for label in BY_LABEL if label.startswith(prefixes)]


def enveloped(*prefixes: str) -> list[str]:
    """Return the labels of the messages in an envelope."""
    return [label for label in labels(*prefixes) if BY_LABEL[label].get("payload_hex")]


CAPTURE = [vector for vector in VECTORS if vector["label"].startswith("capture/")]
