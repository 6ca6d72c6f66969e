"""The connection, the way to brokers and coordinators, and the errors that every client raises."""
