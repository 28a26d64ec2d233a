"""What the store asks of a kind of database: `sqlite` and `postgres` answer it, nothing else knows which one it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Column, Connection, Engine, Table, event
from sqlalchemy.engine import Dialect

from runner.contract import Json
from runner.errors import StoreError


@dataclass(frozen=True, kw_only=True, slots=True)
class Tidied:
    """What giving disk back came to. `is_clean`: no reader kept the write-ahead file from being emptied. `free` pages
    are left in the file; it can give them back `by_pieces`, or only by being built anew."""

    is_clean: bool
    free: int
    by_pieces: bool


def is_address(url: str) -> bool:
    """Whether this names a PostgreSQL database."""
    return url.startswith(("postgresql://", "postgres://", "postgresql+psycopg://"))


class Database(Protocol):
    """One database and how to talk to it."""

    when_away: str
    """What a person is told of what was under way, where its server cannot be reached."""

    @property
    def name(self) -> str:
        """What people call it: the file's path, or server and database without a password."""

    @property
    def is_shared(self) -> bool:
        """Whether several engines may write to it at one time (see `shared`)."""

    @property
    def dialect(self) -> Dialect:
        """How statements are worded for the driver's own cursor."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What the driver raises."""

    def insert(self, table: Table) -> Any:
        """An INSERT that knows what to do about a row that is there."""

    def mark(self, column: Column[Any]) -> str:
        """What stands for a value of this column in a statement's text."""

    def prepare(self) -> None:
        """Makes sure that it can be written to. Raises StoreUnwritable."""

    def writer(self) -> Engine:
        """An engine for the one writer, set so that what is committed is on the disk. Raises StoreUnwritable."""

    def readers(self) -> Engine:
        """An engine of reading connections; a transaction sees one state of the database and blocks nobody."""

    def begin(self, cursor: Any) -> None:
        """Begins a transaction that writes."""

    def end(self, connection: Connection, *, commit: bool) -> None:
        """Ends it; SQLAlchemy, that may have joined it for a statement, hears of it too."""

    def sign(self, connection: Connection) -> None:
        """Marks the database as ours; inside the transaction that creates the tables."""

    def is_empty(self, connection: Connection) -> bool:
        """Whether no table has been made yet. Raises StoreCorrupt where the tables are another application's."""

    def is_passing(self, error: Exception) -> bool:
        """Whether two engines were in each other's way, and the same again may be tried at once."""

    def home(self, connection: Connection) -> str:
        """Which server and database this is, for one that was copied elsewhere to be known; empty: not to be told."""

    def let_in(self, cursor: Any) -> None:
        """Keeps the connection of an engine as one of those that write. Raises EngineBusy."""

    def keep_out(self, connection: Connection) -> None:
        """Until the transaction ends no engine may write. Raises EngineBusy where one does."""

    def one_by_one(self, connection: Connection) -> None:
        """Until the transaction ends no other process makes tables."""

    async def listen(self, told: Callable[[int, str], None]) -> None:
        """Hears what engines tell each other, until cancelled: (fence, what), and (0, "left") after a break, in which
        something may have been missed."""

    def spoils_everything(self, error: Exception) -> bool:
        """Whether it is the database that failed, and not one of the works."""

    def translate(self, error: Exception) -> StoreError:
        """An error of the driver (or SQLAlchemy's, around it) as one sentence for the person who must act."""

    def room_left(self) -> int:
        """Free bytes on its disk; more than anybody needs where that cannot be known."""

    def keep_reserve(self, floor: int) -> None:
        """Sets a little room aside for the last outcomes."""

    def open_reserve(self, error: Exception) -> bool:
        """Whether what was set aside makes one more try worth while."""

    def about(self, connection: Connection) -> dict[str, Json]:
        """What it says of itself: `path`, `software`, `bytes`, and `free` where that is known."""

    def build_anew(self, cursor: Any) -> None:
        """Writes everything anew without its free pages. Raises StoreUnwritable."""

    def give_back(self, cursor: Any, pages: int) -> Tidied:
        """Gives free pages back to the disk."""

    def backup(self, to: Path) -> None:
        """An exact copy while the engine runs on. Raises StoreUnwritable, NotPossible."""


def begin_reading(connection: Connection) -> None:
    """Begins a transaction, but where there is only one statement: that sees one state by itself."""
    if not connection.get_execution_options().get("single"):
        connection.exec_driver_sql("BEGIN")


def end_reading(readers: Engine) -> None:
    """Closes the connections; one that a thread still reads from is closed as soon as it is given back."""
    event.listen(readers.pool, "checkin", lambda connection, _: connection and connection.close())
    readers.dispose()
