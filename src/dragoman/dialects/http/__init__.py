"""The HTTP door's dialect: JSON content, and the messages between web application and core."""
