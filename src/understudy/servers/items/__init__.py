"""A conversation as items for programs: what was said, run, changed and asked, each with a beginning, a state and an end.

`shapes.py` has the items, which REST describes and the library hands out; `codec.py` makes them from the steps of an `Activity`.
"""
