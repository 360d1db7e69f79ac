"""Servers on several machines that share one log: workers serve the conversations of a host, front ends have none of their own."""
