"""`understudy bench-agent`: how much of a folder of tasks an agent solves. Agents are child processes; none runs in ours."""
