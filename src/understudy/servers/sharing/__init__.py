"""A conversation as one file for people: `blocks.py` says what is shown of it, `writing.py` and `page.py` write it."""
