"""Authenticated encryption with one shared key: libsodium's `crypto_box`, with a reused buffer.

For a short frame, PyNaCl's public functions spend twice as long on allocation and checks as
libsodium spends on the cryptography. So this module calls the functions below them
(`nacl._sodium`). PyNaCl does not promise to keep those: the lock file pins its version, and a test
compares the results with its public functions.
"""

from typing import Any, Final

from nacl._sodium import ffi, lib  # type: ignore[import-not-found]
from nacl.exceptions import CryptoError

#: Length of the authenticator (MAC).
MAC_BYTES: Final = 16
#: Length of the nonce, which must differ for every box of a key.
NONCE_BYTES: Final = 24
#: Boxes up to this size use the kept buffer.
_BUFFER_BYTES: Final = 512


class CurveBox:
    """Seals and opens boxes of one shared key. Not thread-safe."""

    def __init__(self, shared: bytes) -> None:
        assert len(shared) == lib.crypto_box_beforenmbytes()
        self._shared = shared
        self._buffer = _new_buffer(_BUFFER_BYTES)

    def close(self, plain: bytes, nonce: bytes) -> bytes:
        """Encrypt and authenticate some bytes."""
        size = len(plain) + MAC_BYTES
        assert len(nonce) == NONCE_BYTES
        pointer, view = self._buffer if size <= _BUFFER_BYTES else _new_buffer(size)
        lib.crypto_box_easy_afternm(pointer, plain, len(plain), nonce, self._shared)
        return view[:size]  # type: ignore[no-any-return]

    def open(self, box: bytes, nonce: bytes) -> bytes:
        """Return the content of a box. Raises `CryptoError` if key or nonce do not match."""
        size, shared = len(box), self._shared
        pointer, view = self._buffer if size <= _BUFFER_BYTES else _new_buffer(size)
        # libsodium does not check lengths: it would read past the end.
        if size < MAC_BYTES or len(nonce) != NONCE_BYTES:
            raise CryptoError("the box or the nonce has a wrong length")
        if lib.crypto_box_open_easy_afternm(pointer, box, size, nonce, shared):
            raise CryptoError("the box does not open")
        return view[: size - MAC_BYTES]  # type: ignore[no-any-return]


def _new_buffer(size: int) -> tuple[Any, Any]:
    pointer = ffi.new("unsigned char[]", size)
    return pointer, ffi.buffer(pointer)
