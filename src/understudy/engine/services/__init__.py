"""Around the engine: programs that are told of turns and questions, the questions of all conversations, searching, retention,
and those who count and trace.
"""
