"""Runs in the helper process: starts, confines, watches and ends commands.

Uses only the standard library and nothing else of the package: the helper is a bare interpreter that imports only this folder, so
that it starts fast, stays small and has no secrets in its memory.
"""
