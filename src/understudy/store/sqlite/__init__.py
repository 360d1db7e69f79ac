"""The log on SQLite: one file with a write-ahead log, `synchronous=FULL`, any number of readers, and one writer thread that
commits all waiting jobs together.

`event_log.py` is the store, `open_files.py` its tables; `writer.py` and `writing.py` write, `queries.py` reads. `claims.py` and
`hints.py` deal with other processes; `second_names.py`, `still_there.py` and `wal.py` keep acknowledged records when somebody
removes or truncates the files.
"""
