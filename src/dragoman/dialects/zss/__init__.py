"""ZSS, the ZMQ Service Suite: its text, and what its published peers do. See README.md."""
