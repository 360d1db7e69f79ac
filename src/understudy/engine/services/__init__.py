"""Around the engine: programs that are told of turns and questions, the questions of all conversations, search, retention, and
observers that count and trace.
"""
