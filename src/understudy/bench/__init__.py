"""`understudy bench-agent`: how many tasks of a folder an agent solves. Agents are child processes; none runs in ours."""
