"""The log as what people and programs are shown: items that begin, grow and end, and what is told between them.

`fold.py` is the one place where records are told apart for those who watch. A front end goes along a conversation with an
`Activity` and gives its steps (`steps.py`) the names and shapes of its own wire. A record that is only told in words needs a
line in the fold, and every front end tells it.
"""
