"""The stored form of a RESPONSE."""

import pytest

from dragoman.dialects.nfp.contents import error_text, split_answer, store_answer


def test_what_norfabs_workers_send_is_stored_as_it_is() -> None:
    assert store_answer(b"200 OK", (b"{}",)) == (b"{}",)
    assert split_answer((b"{}",)) == ((b"{}",), b"200")


@pytest.mark.parametrize("status", [b"200", b"400", b"408", b"417", b"500"])
@pytest.mark.parametrize("content", [(b"",), (b"a",), (b"a", b"", b"c")])
def test_status_and_content_frames_come_back(status: bytes, content: tuple[bytes, ...]) -> None:
    assert split_answer(store_answer(status, content)) == (content, status)


def test_an_error_text_is_printable_and_never_empty() -> None:
    assert error_text((b"no\x00\xff", b"way"), b"500") == "no \ufffd way"
    assert error_text((b"", b"\n"), b"417") == "status 417"
