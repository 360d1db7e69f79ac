"""`understudy store init`."""

import os
from argparse import Namespace

from understudy.cli.store.driver import need_driver
from understudy.cli.stored import home
from understudy.cli.tell.terminal import one_line
from understudy.config.store import read_store_choice
from understudy.errors import BadRequest


def run(_: Namespace) -> int:
    url = read_store_choice(home(), os.environ).url
    if url is None:
        raise BadRequest("conversations are kept in a file, which needs no preparation; `understudy.store.url` names a database")
    need_driver()
    import psycopg

    from understudy.store.postgres.connecting import checked_url, connect, explain, place_of
    from understudy.store.postgres.schema import VERSION
    from understudy.store.postgres.tables import init_tables

    place = place_of(url)
    try:
        with connect(checked_url(url), "init", prepares=False) as connection:
            before = init_tables(connection, place)
    except (psycopg.Error, OSError) as error:
        raise explain(error, place) from error
    if before is None:
        print(f"{one_line(place)} has the tables for conversations now (version {VERSION})")
    elif before < VERSION:
        print(f"the tables of {one_line(place)} are of version {VERSION} now; they were of version {before}")
    else:
        print(f"the tables of {one_line(place)} are as they should be (version {before})")
    return 0
