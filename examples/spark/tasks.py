"""The service of the example: `dragoman worker examples.spark.tasks --service grading`."""

from typing import Any


def grade(order_id: int, amount: float) -> dict[str, Any]:
    """Return an order's band and tax."""
    band = "large" if amount >= 500 else "small"
    return {"band": band, "tax": round(amount * 0.2, 2), "order_id": order_id}


def grade_all(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Grade many orders in one call, for `rows_per_call`."""
    return [grade(**row) for row in rows]
