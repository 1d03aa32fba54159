"""The records on the pipe of a relay."""

import pytest

from dragoman.sdk.beat_relay import BEAT, BYTES, PULSE, Records, pack, pack_beat


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_records_are_split_wherever_the_pipe_cuts_them(step: int) -> None:
    data = pack(PULSE) + pack(BYTES, b"x" * 300) + pack_beat(1.0, 2.0, b"beat") + pack(BYTES, b"")
    records, found = Records(), []
    for at in range(0, len(data), step):
        found += records.feed(data[at : at + step])
    assert [letter for letter, _ in found] == [PULSE, BYTES, BEAT, BYTES]
    assert [len(content) for _, content in found] == [0, 300, 20, 0]
