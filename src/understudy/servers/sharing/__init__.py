"""A conversation as one file for people: `blocks.py` says what is shown of it, `markdown.py` and `page.py` write it."""
