"""Runs hooks: programs of the user that are told what happens and may object. They can only restrict, and fail closed."""
