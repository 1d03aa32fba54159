"""The broker, pure: events in, effects out. Imports only the model."""
