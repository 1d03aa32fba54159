"""Celery's `utils`, as far as programs import it."""
