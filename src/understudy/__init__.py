"""A coding agent that other programs call. The log is the conversation."""

__version__ = "0.2.0"
