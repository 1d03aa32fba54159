"""DagBox's lock, datastore writer and datastore reader as workers of Dragoman."""
