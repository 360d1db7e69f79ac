"""The vocabulary: records of the log (`records/`), what a model said and was given (`items.py`), ops and callers, wire events,
JSON-RPC and ids.

Data only; nothing here does anything.
"""
