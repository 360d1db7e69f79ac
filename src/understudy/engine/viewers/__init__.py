"""Following a conversation: what calls, streams and the terminal have in common, whatever they show.

A viewer has a cursor, catches up from pages that all viewers share, and is never waited for.
"""
