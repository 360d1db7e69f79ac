"""Following a conversation: what calls, streams and the terminal do alike, whatever they show.

A viewer has a cursor, catches up from pages that all share, and is never waited for.
"""
