import pytest

from dragoman.model.schedule import Schedule, check_schedule, read_schedule, schedule_text


def test_a_schedule_reads_back_from_its_text() -> None:
    schedule = Schedule("n", "a", "t", (1, "x"), {"k": [2]}, "0 3 * * *", "Europe/Berlin")
    assert read_schedule(schedule_text(schedule)) == schedule
    assert schedule_text(Schedule("n", "a", every=5)) == '{"name":"n","service":"a","every":5}'


def test_members_from_a_newer_version_are_left_out() -> None:
    text = '{"name":"n","service":"a","every":5,"colour":"blue"}'
    assert read_schedule(text) == Schedule("n", "a", every=5)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Schedule("", "a", every=1), "the name"),
        (Schedule("two words", "a", every=1), "the name"),
        (Schedule("n", "", every=1), "name a service"),
        (Schedule("n", "a"), "either cron or every"),
        (Schedule("n", "a", cron="* * * * *", every=1), "either cron or every"),
        (Schedule("n", "a", every=-1), "at least 1 s"),
        (Schedule("n", "a", every=1, catch_up="some"), "catch_up must be none, last, all"),
        (Schedule("n", "a", every=1, overlap="queue"), "overlap must be skip or allow"),
        (Schedule("n", "a", every=1, jitter=-1), "jitter"),
        (Schedule("n", "a", every=10.0), "every must be a whole number, not 10.0"),  # type: ignore[arg-type]
        (Schedule("n", "a", every=True), "every must be a whole number, not True"),
        (Schedule("n", ["a"], every=1), r"service must be text, not \['a'\]"),  # type: ignore[arg-type]
        (Schedule("n", "a\ud800", every=1), "printable"),
        (Schedule("n", "a", every=1, timeout="1"), "timeout must be a number of seconds"),  # type: ignore[arg-type]
    ],
)
def test_a_refusal_says_what_is_wrong(schedule: Schedule, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_schedule(schedule)
