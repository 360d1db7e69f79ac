"""Turns the log into what people and programs are shown: items that begin, grow and end, and notices between them.

`fold.py` is the only place that distinguishes kinds of records for display. A front end passes a conversation's records through an
`Activity` and translates the resulting steps (`steps.py`) into its own wire. A record that is shown only as words needs one line in
the fold; then every front end shows it.
"""
