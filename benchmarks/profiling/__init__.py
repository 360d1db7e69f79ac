"""Where our own time goes: imports at the start, functions while text streams and while many sessions reply."""
