"""Orphaned runs: still `running` in the store although their process was killed. They are marked as interrupted."""

from __future__ import annotations

import time

from vtax.host.home import Home


def close_orphans(home: Home) -> list[str]:
    """Mark `running` runs as interrupted and return their names. The caller holds the measuring lock.

    Only in an existing SQLite file: a database server may have runs of other hosts, which this host's lock does not
    cover. Raises StoreError when the store cannot be read or written.
    """
    from vtax.store.database import make_engine, sqlite_file
    from vtax.store.store import Store

    file = sqlite_file(make_engine(home.store_url).url)
    if file is None or not file.is_file():
        return []
    with Store.open(home.store_url) as store:
        names = [run.name for run in store.runs() if run.status == "running"]
        if names:
            store.close_orphans(names, time.time())
    return names
