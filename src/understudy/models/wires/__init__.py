"""How to talk to providers: for each wire, one file makes requests from prompts and another reads its streams; plus what the wires
have in common.
"""
