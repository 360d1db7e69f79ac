"""What every server process has: event loop, log, signals, and for those who look from outside the scope of a request,
observers, traces and metrics.
"""
