"""`dragoman demo`: the whole mission in one finite run."""
