"""The dialect of the house itself: how built-in services are workers like any other."""
