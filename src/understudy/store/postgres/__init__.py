"""The log on PostgreSQL, for several servers. Imported only if the configuration names a database."""
