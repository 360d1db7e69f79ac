"""Servers of many machines that share one log: who serves the conversations of a host, and front ends that have none."""
