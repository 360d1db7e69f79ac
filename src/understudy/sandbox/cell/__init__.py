"""What runs in the helper process: it starts, confines, watches and ends commands.

Standard library only, and nothing of the rest of the package: the helper is a bare interpreter that
imports this folder by itself, so it starts fast, stays small and has no secret in its memory.
"""
