"""The dialect of HTTP: JSON content, and events and effects as objects."""
