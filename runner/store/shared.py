"""Several engines on one PostgreSQL: each has a row with a fence and a lease, and every transaction begins with it.

Whoever finds a row whose lease is over, or whose process on this machine is gone, takes it away, and the runs with it.
Both lock the row, so whatever the engine that was held up still wanted to write comes after that, finds no row, and is
refused. What two engines must not decide about at one time (a record, an event's waiter) is locked by its name until
COMMIT.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, or_, select, text, update

from runner.clock import SECOND
from runner.store.company import LEFT, Left
from runner.store.dividing import RATE
from runner.store.site import Site, read_site
from runner.store.tables import duties, engines, meta, places, runs

LEASE = 15 * SECOND
BEAT = 4 * SECOND
"""How often an engine that writes nothing says that it is there, and looks after the others."""

PATIENCE = 4 * LEASE
"""How long an engine may think in the middle of taking over what others left, which may be very many runs."""

NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT"
_LIVES = f"lease_until = {NOW} + %s WHERE fence = %s"
_BEGIN = f"UPDATE engines SET commit_no = nextval('commits'), {_LIVES} RETURNING commit_no"  # noqa: S608
_BEAT = f"UPDATE engines SET {_LIVES}"  # noqa: S608
_ALONE = "SELECT pg_advisory_xact_lock(name) FROM unnest(%s::BIGINT[]) AS name"
_ASKS, _SETS = (
    f"SELECT pg_advisory_xact_lock{kind}(hashtext('holds'), hashtext(current_schema()))" for kind in ("_shared", "")
)
_TELL = "SELECT pg_notify('amends_' || md5(current_schema()), word) FROM unnest(%s::TEXT[]) AS word"
_GONE = select(engines).where(
    or_(engines.c.lease_until < text(NOW), engines.c.fence.in_(bindparam("dead", expanding=True))),
    engines.c.fence != bindparam("mine"),
)
_BESIDE = select(engines.c.fence, engines.c.name).where(engines.c.name.endswith(bindparam("here")))
_OTHERS = select(func.count()).select_from(engines).where(engines.c.lease_until >= text(NOW))
_LIVING = select(engines.c.name).where(engines.c.lease_until >= text(NOW)).order_by(engines.c.fence)

Told = tuple[int, str]
"""(fence of whom it concerns, 0 for any; what: a run's id or a word)."""


class Shared:
    """This engine among the others. `drives`: it goes on with runs that it has reported about; else others do."""

    def __init__(self, *, drives: bool = True) -> None:
        self.fence = 0
        self._drives = drives
        self._here = _here()
        self._name = f"{socket.gethostname()}:{os.getpid()}{_kind(drives=drives)}{self._here}"

    @property
    def mine(self) -> int:
        """The fence on a run that this engine takes."""
        return self.fence if self._drives else 0

    # -- coming and going --

    def join(self, connection: Connection, at_least: int, home: str) -> Site:
        """Takes the next fence (above `at_least`) and a row. The site's `home` is as it was before."""
        _be_patient(connection)
        connection.execute(select(meta.c.id).with_for_update())
        site = read_site(connection)
        last = max(site.commit_no, connection.execute(select(func.max(engines.c.commit_no))).scalar() or 0)
        self.fence = max(site.fence, at_least) + 1
        self.skip(connection, last)
        connection.execute(update(meta).values(fence=self.fence, home=home))
        lease = text(f"{NOW} + {LEASE}")
        row = {"fence": self.fence, "commit_no": last, "checkpointed": last, "name": self._name}
        connection.execute(insert(engines).values(**row, lease_until=lease, since=text(NOW)))
        return replace(site, fence=self.fence, commit_no=last)

    def skip(self, connection: Connection, commit_no: int) -> None:
        """No number up to this one is given to a commit any more."""
        reached = connection.exec_driver_sql("SELECT last_value FROM commits").scalar_one()
        if reached < commit_no:
            connection.exec_driver_sql("SELECT setval('commits', %s)", (commit_no,))

    def others(self, connection: Connection) -> int:
        """How many engines live besides this one."""
        return int(connection.execute(_OTHERS.where(engines.c.fence != self.fence)).scalar_one())

    def last_commit(self, connection: Connection) -> int | None:
        """The number of this engine's last commit; None where its row was taken away."""
        asked = select(engines.c.commit_no).where(engines.c.fence == self.fence)
        found: int | None = connection.execute(asked).scalar()
        return found

    def leave(self, connection: Connection) -> None:
        """Gives everything back."""
        with connection.begin():
            self._end(connection, self.fence, 0)
            self.tell(connection.connection.cursor(), [(0, LEFT)])

    def bury(self, connection: Connection) -> list[Left]:
        """Takes away the rows of engines whose lease is over or whose process is gone, and takes what they had."""
        asked = {"mine": self.fence, "dead": self._dead(connection)}
        gone = connection.execute(_GONE.with_for_update(skip_locked=True), asked).all()
        return [self._take_from(connection, row) for row in gone]

    def _dead(self, connection: Connection) -> list[int]:
        """Engines of this machine of which no process is left: nobody has to wait until their lease is over."""
        beside = connection.execute(_BESIDE, {"here": self._here}).all() if self._here else ()
        return [fence for fence, name in beside if _is_gone(name, self._here)]

    def _take_from(self, connection: Connection, gone: Any) -> Left:
        _be_patient(connection)
        untied = select(runs.c.run_id, runs.c.seq, runs.c.head).where(
            runs.c.commit_no > gone.checkpointed, runs.c.commit_no <= gone.commit_no
        )
        changed = tuple((row.run_id, row.seq, row.head) for row in connection.execute(untied))
        taken = self._end(connection, gone.fence, self.mine)
        return Left(fence=gone.fence, name=_plain(gone.name), runs=taken, changed=changed)

    def _end(self, connection: Connection, fence: int, heir: int) -> tuple[str, ...]:
        moved = update(runs).where(runs.c.fence == fence, runs.c.fence != 0).values(fence=heir)
        taken = tuple(connection.execute(moved.returning(runs.c.run_id)).scalars())
        connection.execute(duties.delete().where(duties.c.fence == fence))
        # Calls count for a rate when whoever made them is gone.
        counting = (places.c.fence == fence, places.c.open > 0, places.c.connection.endswith(RATE))
        connection.execute(update(places).where(*counting).values(fence=-fence, begun=text(NOW), wanted=0))
        connection.execute(places.delete().where(places.c.fence == fence))
        ended = engines.delete().where(engines.c.fence == fence).returning(engines.c.commit_no)
        last = connection.execute(ended).scalar() or 0
        connection.execute(update(meta).values(commit_no=func.greatest(meta.c.commit_no, last)))
        return taken

    # -- in every transaction --

    def begin(self, cursor: Any) -> int | None:
        """The number of the commit that begins, and another lease; None where the row was taken away."""
        cursor.execute(_BEGIN, (LEASE, self.fence))
        row = cursor.fetchone()
        return None if row is None else int(row[0])

    def beat(self, cursor: Any) -> bool:
        """Another lease, and nothing else; False where the row was taken away."""
        cursor.execute(_BEAT, (LEASE, self.fence))
        return bool(cursor.rowcount)

    def alone(self, cursor: Any, names: Iterable[str]) -> None:
        """Returns when no other engine is in the middle of deciding about these, and none can be until COMMIT."""
        keys = sorted({int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True) for name in names})
        if keys:
            cursor.execute(_ALONE, (keys,))

    def held(self, cursor: Any, *, sets: bool) -> dict[str, str]:
        """What persons hold at the site until COMMIT: who asks is not kept waiting by others who ask, and whoever sets
        (`sets`) comes after all who have asked."""
        cursor.execute(_SETS if sets else _ASKS)
        cursor.execute("SELECT name, held_by FROM site_holds")
        return dict(cursor.fetchall())

    def tell(self, cursor: Any, told: Sequence[Told]) -> None:
        """Has the others told after COMMIT; what is lost on the way they find by themselves."""
        cursor.execute(_TELL, ([f"{fence} {what}" for fence, what in told],))


def living(connection: Connection) -> list[str]:
    """For `SqlStore.ask`: the engines that live, as `host:process`, the oldest first. One whose lease is over is none,
    nor one of this machine of which no process is left."""
    return [_plain(name) for name in _living(connection)]


def unlike(*, drives: bool) -> Callable[[Connection], list[str]]:
    """For `SqlStore.ask`: of these, those that do not go on with their runs as this one does; an engine of an Amends
    that did not say so yet is none of them."""

    def ask(connection: Connection) -> list[str]:
        kind = f"{_kind(drives=not drives)} "
        return [_plain(name) for name in _living(connection) if kind in f"{name} "]

    return ask


def _living(connection: Connection) -> list[str]:
    here = _here()
    return [name for name in connection.execute(_LIVING).scalars() if not _is_gone(name, here)]


def _kind(*, drives: bool) -> str:
    return " embedded" if drives else " temporal"


def _be_patient(connection: Connection) -> None:
    """Until COMMIT the server lets this engine be idle for longer than in its other transactions."""
    connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {PATIENCE}")


def _here() -> str:
    """Where the number of a process means that process and no other: this boot of the machine, and the container.
    Empty where the system does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f" {boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _plain(name: str) -> str:
    return name.partition(" ")[0]


def _is_gone(name: str, here: str) -> bool:
    """Whether the engine was a process of this machine, and that has ended."""
    return bool(here) and name.endswith(here) and not _lives(int(_plain(name).rpartition(":")[2]))


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
