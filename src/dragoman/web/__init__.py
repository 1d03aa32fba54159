"""The HTTP door: a web application whose callers are ordinary clients and workers of the broker."""
