"""The vocabulary: records of the log (`records/`), a model's input and output (`items.py`), ops and callers, wire events, JSON-RPC
and ids.

Data only; nothing here acts.
"""
