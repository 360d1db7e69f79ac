"""A conversation as one file for people: `blocks.py` chooses what is shown, `writing.py` and `page.py` write it."""
