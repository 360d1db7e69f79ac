"""`understudy chat`: a conversation in the terminal.

What is over is printed and stays in the terminal's own history; below it is what is under way, and the line that is
typed.
"""
