from datetime import UTC, date, datetime

from dragoman.pipeline.snapshot import FIRST_DAY, Snapshot, VersionPart, instant, snapshot_from


def test_a_snapshot_survives_being_written_and_read() -> None:
    parts: dict[str, tuple[VersionPart, ...]]
    parts = {
        "jobs": (VersionPart(2, 1), VersionPart(4, since=date(2026, 1, 2), until=date(2026, 1, 3)))
    }
    written = Snapshot(3, 99, datetime(2026, 1, 5, 1, 2, 3, 4, UTC), parts, {"jobs": 6})
    assert snapshot_from(written.to_json()) == written
    assert snapshot_from(Snapshot().to_json()) == Snapshot()


def test_cutting_from_a_day_on_keeps_what_lies_before() -> None:
    draft = Snapshot(2, parts={"slo": (VersionPart(2), VersionPart(4, since=date(2026, 1, 5)))})
    draft.cut("slo", date(2026, 1, 5))
    assert draft.parts["slo"] == (VersionPart(2, until=date(2026, 1, 5)),)
    draft.cut("slo", FIRST_DAY)
    assert not draft.parts["slo"]


def test_a_draft_does_not_change_the_snapshot_it_follows() -> None:
    former = Snapshot(1, 5, parts={"jobs": (VersionPart(2),)})
    draft = former.following()
    draft.add("jobs", VersionPart(draft.folder))
    draft.unsettled["jobs"] = draft.folder
    assert former == Snapshot(1, 5, parts={"jobs": (VersionPart(2),)})
    assert draft.folders() == {("jobs", 2), ("jobs", 4)}


def test_merged_parts_take_the_place_of_the_ones_they_are_made_of() -> None:
    draft = Snapshot(
        9, parts={"jobs": (VersionPart(2, 1), VersionPart(4), VersionPart(6), VersionPart(8))}
    )
    draft.put("jobs", [VersionPart(4), VersionPart(6)], VersionPart(19, 1))
    assert draft.parts["jobs"] == (VersionPart(2, 1), VersionPart(19, 1), VersionPart(8))


def test_instants_are_in_utc_whatever_the_machine_thinks() -> None:
    assert instant(1_767_571_200_000_001) == datetime(2026, 1, 5, 0, 0, 0, 1, UTC)
