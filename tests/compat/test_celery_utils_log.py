from dragoman.compat.celery.utils.log import get_task_logger


def test_a_task_has_a_logger() -> None:
    assert get_task_logger("x").name == "celery.task.x"
