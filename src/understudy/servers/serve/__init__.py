"""`understudy serve`: the ASGI application that decides who serves a request, the connection, and the process that listens and
drains.
"""
