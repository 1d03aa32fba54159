"""The link between brokers: each is a worker and a client of the other."""
