from dragoman.compat.dramatiq import DragomanBroker, actor, get_broker, set_broker


def test_actors_belong_to_the_broker_that_was_set() -> None:
    broker = DragomanBroker(host="localhost")
    before = get_broker()
    set_broker(broker)
    made = actor(print, actor_name="show", queue_name="screen")
    assert broker.get_actor("show") is made
    assert broker.get_declared_queues() == {"screen"}
    set_broker(before)


def test_a_worker_has_the_actors_of_its_queue() -> None:
    broker = DragomanBroker(url="nfp://127.0.0.1:5555")
    actor(print, broker=broker, queue_name="a")
    actor(max, broker=broker, queue_name="b")
    a, b = broker.make_workers(threads=2)
    assert [worker.task_names() for worker in (a, b)] == [
        ["print", "run_workflow"],
        ["max", "run_workflow"],
    ]
    (only,) = broker.make_workers(["b"])
    assert only.services == ("b",)
