"""The log on PostgreSQL, for several servers. Nothing of it is imported unless the configuration names a database."""
