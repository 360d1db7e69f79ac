"""What things cost, counted and not timed: clocks say little on a busy machine, while calls and frames stay the same."""
