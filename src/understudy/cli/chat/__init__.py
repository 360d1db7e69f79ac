"""`understudy chat`: a conversation in the terminal.

What is finished is printed and stays in the terminal's history; below it are what is in progress and the input line.
"""
