"""Which sentences of a protocol text are rules."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "normative_sentences.py"
_SPEC = importlib.util.spec_from_file_location("normative_sentences", SCRIPT)
assert _SPEC is not None
assert _SPEC.loader is not None
script = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(script)

TEXT = """# A protocol

The key words "MUST" and "MAY" are to be interpreted as usual.

The broker MUST answer. It is fast. A client MAY wait
for the answer.

- `show_broker` - returns the broker
- `Interval`: how often (default: 15s)

200 - OK. It worked.

```
MUST not be read: code
```

## Rules

1. **Heading**
   - Nodes send heartbeats
"""


def test_sentences_with_key_words_and_listed_functions_are_rules() -> None:
    assert script.sentences(TEXT) == [
        "The broker MUST answer.",
        "A client MAY wait for the answer.",
        "`show_broker` - returns the broker",
        "`Interval`: how often (default: 15s)",
        "200 - OK. It worked.",
    ]


def test_a_text_without_key_words_has_its_rules_in_list_items() -> None:
    assert script.items(TEXT, ["Rules"]) == ["Nodes send heartbeats"]
