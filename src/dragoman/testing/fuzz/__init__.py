"""Grammar-aware fuzzing of a live broker: `python -m dragoman.testing.fuzz`.

`grammar` and one file per dialect make almost valid messages. `mutations` mutates them. `senders`
sends them over real sockets. `attack` sends them while honest peers work, then checks the broker.
The same seed makes the same messages.
"""
