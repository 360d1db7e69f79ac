"""Doors on standard input and output for one client: the start, before anything heavy is loaded, and what all line
protocols share.
"""
