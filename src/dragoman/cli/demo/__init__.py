"""`dragoman demo`: everything the broker does, in one finite run."""
