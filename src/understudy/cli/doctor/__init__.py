"""`understudy doctor`: what works here, what does not, and what to do about it.

One file for each part of the machine that it checks.
"""
