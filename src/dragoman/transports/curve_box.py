"""The boxes of one shared key: libsodium's `crypto_box`, with nothing made anew for each of them.

PyNaCl's functions for this allocate and check twice as long as libsodium works on a frame of some
bytes. What they call is called here, with room that is used again. The functions are PyNaCl's own
(`nacl._sodium`), which it does not promise to keep: the lock file holds its version, and a test
holds these boxes against its public functions.
"""

from typing import Any, Final

from nacl._sodium import ffi, lib  # type: ignore[import-not-found]
from nacl.exceptions import CryptoError

#: Bytes that prove that nobody has touched a box.
PROOF: Final = 16
#: Bytes that must never be the same for two boxes.
NONCE: Final = 24
#: Bytes that are opened and closed in room that is kept.
_KEPT: Final = 512


class CurveBox:
    """Opens and closes boxes of one key. Not for two threads at once."""

    def __init__(self, shared: bytes) -> None:
        assert len(shared) == lib.crypto_box_beforenmbytes()
        self._shared = shared
        self._room = _room(_KEPT)

    def close(self, plain: bytes, nonce: bytes) -> bytes:
        """Box some bytes."""
        size = len(plain) + PROOF
        assert len(nonce) == NONCE
        place, view = self._room if size <= _KEPT else _room(size)
        lib.crypto_box_easy_afternm(place, plain, len(plain), nonce, self._shared)
        return view[:size]  # type: ignore[no-any-return]

    def open(self, box: bytes, nonce: bytes) -> bytes:
        """Return what is in a box. Raises `CryptoError` if it is not one of this key and nonce."""
        size, shared = len(box), self._shared
        place, view = self._room if size <= _KEPT else _room(size)
        # Lengths are ours to check: libsodium reads as much as there should be.
        if size < PROOF or len(nonce) != NONCE:
            raise CryptoError("no box, or no nonce")
        if lib.crypto_box_open_easy_afternm(place, box, size, nonce, shared):
            raise CryptoError("the box does not open")
        return view[: size - PROOF]  # type: ignore[no-any-return]


def _room(size: int) -> tuple[Any, Any]:
    place = ffi.new("unsigned char[]", size)
    return place, ffi.buffer(place)
