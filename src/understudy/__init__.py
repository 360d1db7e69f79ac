"""A coding agent that other programs call. The log is the conversation."""

__version__ = "0.3.0"
