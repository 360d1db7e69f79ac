"""How providers are spoken to: for each wire a file that makes requests of prompts and one that reads its streams, and what the
wires have in common.
"""
