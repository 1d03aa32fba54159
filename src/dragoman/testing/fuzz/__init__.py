"""Grammar-aware fuzzing of a live broker: `python -m dragoman.testing.fuzz`.

`grammar` and one file per dialect make messages that are nearly right, `mutations` spoils them,
`hoses` carries them over real sockets, `attack` fires while honest peers go on working, and
looks at the broker afterwards. The same seed makes the same messages.
"""
