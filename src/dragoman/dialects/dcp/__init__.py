"""DCP, the DagBox Communication Protocol v1, as the text and DagBox define it. See README.md."""
