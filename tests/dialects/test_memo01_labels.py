"""Labels travel among the services of READY."""

from dragoman.dialects.memo01.labels import read_labels, write_labels


def test_labels_come_back_apart_from_services() -> None:
    said = ["math", *write_labels({"agent": "dragoman", "zone": "eu=1"}), "text"]
    assert read_labels(said) == (["math", "text"], {"agent": "dragoman", "zone": "eu=1"})


def test_what_only_looks_like_a_label_is_a_service() -> None:
    assert read_labels(["label:", "label:=x", "label:x", "a=b"]) == (
        ["label:", "label:=x", "label:x", "a=b"],
        {},
    )
