"""A worker is a module of plain functions.

Run it with: dragoman worker examples.ten_lines.tasks --service math --url nfp://127.0.0.1:5555
"""


def add(x: int, y: int) -> int:
    """Add two numbers."""
    return x + y
