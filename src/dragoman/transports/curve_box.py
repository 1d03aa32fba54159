"""Authenticated encryption with one shared key: libsodium's `crypto_box`, with a reused buffer.

For a short frame, PyNaCl's public functions spend twice as long on allocation and checks as
libsodium spends on the cryptography. So `FastCurveBox` calls the functions below them
(`nacl._sodium`). PyNaCl does not promise to keep those: if they are missing, `CurveBox` is
`PublicCurveBox`, which has the same tests.
"""

from typing import Any, Final

from nacl.bindings import crypto_box_easy_afternm, crypto_box_open_easy_afternm
from nacl.exceptions import CryptoError

try:
    from nacl._sodium import ffi, lib  # type: ignore[import-not-found]
except ImportError:  # pragma: no cover - another PyNaCl
    ffi = lib = None

#: Length of the authenticator (MAC).
MAC_BYTES: Final = 16
#: Length of the nonce, which must differ for every box of a key.
NONCE_BYTES: Final = 24
#: Length of a shared key.
_KEY_BYTES: Final = 32
#: Boxes up to this size use the kept buffer.
_BUFFER_BYTES: Final = 512
#: The functions that `FastCurveBox` needs.
_NEEDED: Final = ("crypto_box_easy_afternm", "crypto_box_open_easy_afternm")


class PublicCurveBox:
    """Seals and opens boxes of one shared key, with PyNaCl's public functions."""

    def __init__(self, shared: bytes) -> None:
        assert len(shared) == _KEY_BYTES
        self._shared = shared

    def close(self, plain: bytes, nonce: bytes) -> bytes:
        """Encrypt and authenticate some bytes."""
        return crypto_box_easy_afternm(plain, nonce, self._shared)

    def open(self, box: bytes, nonce: bytes) -> bytes:
        """Return the content of a box. Raises `CryptoError` if key or nonce do not match."""
        if len(box) < MAC_BYTES or len(nonce) != NONCE_BYTES:
            raise CryptoError("the box or the nonce has a wrong length")
        return crypto_box_open_easy_afternm(box, nonce, self._shared)


class FastCurveBox(PublicCurveBox):
    """The same with libsodium's functions and a kept buffer. Not thread-safe."""

    def __init__(self, shared: bytes) -> None:
        super().__init__(shared)
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


def _new_buffer(size: int) -> tuple[object, Any]:
    pointer = ffi.new("unsigned char[]", size)
    return pointer, ffi.buffer(pointer)


#: The one to use with the installed PyNaCl.
CurveBox: type[PublicCurveBox] = (
    FastCurveBox if all(hasattr(lib, name) for name in _NEEDED) else PublicCurveBox
)
