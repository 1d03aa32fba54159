"""DCP, the DagBox Communication Protocol: the v1 text and what DagBox does. See README.md."""
