"""The stored form of a RESPONSE: its content frames, and its status unless it is plain success.

A 200 with one content frame is stored as that frame, which is all that NorFab's workers send.
Everything else is stored as the content frames followed by the status.
"""

from typing import Final

OK: Final = b"200"
Content = tuple[bytes, ...]


def store_answer(status: bytes, content: Content) -> Content:
    """Return the parts to store. The text after the three digits of a status has no meaning."""
    code = status[:3]
    return content if code == OK and len(content) == 1 else (*content, code)


def split_answer(parts: Content) -> tuple[Content, bytes]:
    """Return the content frames and the status of stored parts."""
    return (parts[:-1], parts[-1]) if len(parts) > 1 else (parts, OK)


def error_text(content: Content, status: bytes) -> str:
    """Return what an opaque error body says, for people; at least its status."""
    text = b" ".join(content)[:300].decode(errors="replace").strip()
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown or f"status {status.decode(errors='replace')}"
