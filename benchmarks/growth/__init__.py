"""How our server's costs grow: with history, sessions, stored conversations, viewers, delta size and a slower disk."""
