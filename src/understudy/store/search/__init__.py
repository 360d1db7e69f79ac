"""Finds what was said and run: an index beside the log, kept up to date, and rebuilt if it is missing."""
