"""Hooks at work: programs of the user's that are told what happens, and may object. They only tighten, and fail closed."""
