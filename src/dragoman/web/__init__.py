"""The web application: its callers are ordinary clients and workers of the broker."""
