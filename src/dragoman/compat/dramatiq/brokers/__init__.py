"""Dramatiq's brokers: each name is a connection to a Dragoman broker."""
