"""What every server process has: event loop, log and signals; and for monitoring, the scope of a request, observers, traces and
metrics.
"""
