"""NFP, the NORFAB Protocol: the v0.1 text and what NorFab's own peers do. See README.md."""
