"""The store itself: `open_store` and the writing methods. Reading stands in `views`, checking in `audit`."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, Engine, select
from sqlalchemy.exc import DBAPIError

from runner.clock import SECOND, Clock
from runner.contract import Json, Outcome
from runner.core.events import Event, OutcomeEvent, PersonalDataErased, Restored, SiteEvent
from runner.errors import AmendsError, EngineBusy, NotFound, SettingsError, StoreError, StoreUnwritable
from runner.store.active import ActivateWork, ActiveFlow
from runner.store.anchor import Restoration, sync_folder
from runner.store.arrivals import Arrival, Arrived, ArriveWork
from runner.store.artifacts import LIMIT, Artifacts, TableArtifacts, fit
from runner.store.audit import Audit
from runner.store.company import Left
from runner.store.database import Database, Tidied, end_reading, is_address
from runner.store.dividing import Grant, Wish
from runner.store.erase import EraseWork
from runner.store.events import FeedWork, KeepWork
from runner.store.facts import Append, LogEnd, NewRun, OwnOperation, RunColumns, Started
from runner.store.lock import EngineLock
from runner.store.log import Entry, apart, encode, stands_for, without_output
from runner.store.many import ManyWork
from runner.store.messages import Message
from runner.store.opening import take_over
from runner.store.personal import Personal
from runner.store.prune import Portion, PruneWork
from runner.store.restored import GO_ON, MOVED, restorations
from runner.store.schema import ensure_schema, is_older
from runner.store.shared import Shared
from runner.store.sharing import DutyWork, PlacesWork, TakeWork, TellWork
from runner.store.signing import open_signer, public_key
from runner.store.sqlite import BUSY_TIMEOUT, SqliteFile, shown_size
from runner.store.tables import meta, runs
from runner.store.work import (
    AppendWork,
    BesideWork,
    BundleWork,
    CheckpointWork,
    ColumnsWork,
    OwnWork,
    ReportWork,
    SiteWork,
    StartWork,
    T,
    TidyWork,
    Work,
)
from runner.store.writer import Writer

FILE = "amends.db"
FLOOR = 50_000_000
"""Free bytes below which no new run is started; runs under way go on."""


class SqlStore(Audit):
    """The store on SQLAlchemy Core, made by `open_store`. Writing is for event loops, reading for any thread."""

    def __init__(
        self,
        file: Database,
        readers: Engine,
        artifacts: Artifacts,
        clock: Clock,
        writer: Writer | None,
        floor: int,
        stack: ExitStack,
    ) -> None:
        super().__init__(file, readers, artifacts)
        self._clock = clock
        self._writer = writer
        self._floor = floor
        self._open_things = stack
        self._kept: set[str] = set()
        self._room_known: tuple[int, int] | None = None
        self.refused = ""
        """Why the last write was refused; empty where it was not."""

    # -- several engines --

    @property
    def is_shared(self) -> bool:
        return self._file.is_shared

    def fence(self) -> int:
        return self._writer.site.fence if self._writer is not None else super().fence()

    def _is_mine(self) -> ColumnElement[bool]:
        if self._writer is None or not self.is_shared:
            return super()._is_mine()
        return runs.c.fence.in_((0, self.fence()))

    def has_company(self, connection: Connection) -> bool:
        """Whether other engines write to the database just now."""
        shared = None if self._writer is None else self._writer.shared
        return shared is not None and shared.others(connection) > 0

    def is_in_company(self) -> bool:
        return self.ask(self.has_company)

    def watch_left(self, on_left: Callable[[Left], object]) -> None:
        if self._writer is not None:
            self._writer.on_left = on_left

    async def listen(self, told: Callable[[int, str], None]) -> None:
        await self._file.listen(told)

    # -- the whole --

    async def checkpoint(self) -> None:
        """Ties every run's chain, as it is now, into the site's chain."""
        await self._put(CheckpointWork())

    @property
    def name(self) -> str:
        """What people call the database: its file, or server and database."""
        return self._file.name

    @property
    def restored(self) -> bool:
        """Whether the database was put back from a copy and nobody has said yet that it may go on: come up paused."""
        if self._writer is not None and not self.is_shared:
            return self._writer.site.restored_at is not None
        with self._read() as connection:
            return connection.execute(select(meta.c.restored_at)).scalar() is not None

    @property
    def why_restored(self) -> str:
        """Why it is `restored`, as a sentence without its full stop; empty where it is not."""
        return next((each.why for each in self.restorations() if not each.at), "")

    def restorations(self) -> Sequence[Restoration]:
        return self.ask(restorations)

    def watch_commits(self, on_commit: Callable[[int, float], None]) -> None:
        """Has the writer tell of every COMMIT: how many writes shared it, and how many seconds it took."""
        if self._writer is not None:
            self._writer.on_commit = on_commit

    async def go_on_restored(self, by: str, *, moved: bool = False) -> None:
        """A person's word that the restored database may be worked with: `restored` is False from here on. `moved`: it
        is whole, and nobody uses the place where it was."""
        event = Restored(at=self._clock.now(), by=by, data={"answer": MOVED if moved else GO_ON})
        await self._put(SiteWork(event=event, entry=encode(event), go_on=True))

    def room_left(self) -> int:
        """Free bytes on the database's disk."""
        return self._file.room_left()

    @property
    def is_short(self) -> bool:
        """Whether there is so little room that no new run is started."""
        return self.room_left() < self._floor

    def keep_reserve(self) -> None:
        """Sets some room aside again that the writer uses when there is none left, if there is plenty."""
        self._file.keep_reserve(self._floor)

    def _room(self) -> int:
        """`room_left`, asked of the system once a second: a start is quicker than the question."""
        now = self._clock.monotonic()
        if self._room_known is None or now - self._room_known[0] >= SECOND or self._room_known[1] < self._floor:
            self._room_known = (now, self.room_left())
        return self._room_known[1]

    def close(self) -> None:
        """Writes what waits and gives everything back, the engine lock too when it was taken here."""
        self._open_things.close()

    def backup(self, to: Path) -> None:
        """A copy of the database while the engine runs on. Raises StoreUnwritable.

        Not copied: the artifacts (large values) and the anchor of `.amends`, and nothing of the project's own files
        (flows, `amends.yaml`, people, connections, `.env`). A run's bundle is in the database.
        """
        self._file.backup(to)

    # -- writing; what each promises stands in facts.Store --

    async def append(self, append: Append) -> LogEnd:
        entries = [encode(event) for event in append.events]
        for at, entry in enumerate(entries):
            if entry.size > LIMIT:
                _, entries[at] = await asyncio.to_thread(self._keep_large, append.events[at], entry)
        follow = None if append.follow is None else StartWork(append.follow, (await self._made(append.follow.event))[1])
        return await self._put(AppendWork(append, tuple(entries), follow))

    async def report(self, run: str, event: Event, seq: int | None = None, messages: Sequence[Message] = ()) -> LogEnd:
        """A report. Raises AlreadyReported, NotFound, SequenceConflict, StoreUnwritable. Large outputs: see
        `artifacts.fit`."""
        return await self._put(ReportWork(run, *await self._made(event), seq, messages))

    async def carry_out(self, operation: OwnOperation, event: Callable[[Outcome], Event]) -> tuple[LogEnd, Event]:
        return await self._put(OwnWork(run=operation.run, operation=operation, settle=event, store=self._stored))

    async def start(self, new: NewRun) -> Started:
        """Starts a run or joins the one that has the key. Raises RunKeyConflict; StoreUnwritable when room is short."""
        self._refuse_if_short()
        return await self._put(StartWork(new, (await self._made(new.event))[1]))

    async def start_many(self, several: Sequence[NewRun]) -> Sequence[Started | AmendsError]:
        self._refuse_if_short()
        return await self._put(ManyWork([StartWork(new, (await self._made(new.event))[1]) for new in several]))

    def _refuse_if_short(self) -> None:
        left = self._room()
        if left < self._floor:
            raise StoreUnwritable(
                f"no new run is started: only {shown_size(left)} are free on the disk of {self._file.name}, and "
                f"{shown_size(self._floor)} are kept for the runs under way; free some space, or remove ended runs "
                "(`amends db prune`)"
            )

    async def arrive(
        self, several: Sequence[tuple[Arrival, NewRun | None]], cursor: tuple[str, str] | None = None
    ) -> Sequence[Arrived]:
        """Keeps arrivals with the runs that they start, and where their trigger stands then: all or nothing.

        Raises StoreUnwritable, also when room is short.
        """
        self._refuse_if_short()
        works = [
            (arrival, None if new is None else StartWork(new, (await self._made(new.event))[1]))
            for arrival, new in several
        ]
        return await self._put(ArriveWork(several=tuple(works), cursor=cursor))

    async def activate(self, several: Sequence[ActiveFlow]) -> None:
        """Makes these the active versions, at one instant."""
        await self._put(ActivateWork(several=tuple(several)))

    async def keep_bundle(self, digest: str, texts: Mapping[str, str]) -> None:
        if digest not in self._kept:
            await self._put(BundleWork(digest=digest, named=dict(texts)))
            self._kept.add(digest)

    async def site(self, event: SiteEvent) -> None:
        await self._put(SiteWork(event=event, entry=(await self._made(event))[1]))

    async def take(self, run: str) -> bool:
        return await self._put(TakeWork(run=run)) if self.is_shared else True

    async def give_back(self, run: str) -> None:
        if self.is_shared:
            await self._put(TakeWork(run=run, gives_back=True))

    async def tell(self, run: str) -> None:
        if self.is_shared and self.fence_of(run) not in (0, self.fence()):
            await self._put(TellWork(run=run))

    async def take_on(self, duty: str) -> bool:
        return await self._put(DutyWork(name=duty)) if self.is_shared else True

    async def divide(self, wishes: Mapping[str, Wish]) -> Mapping[str, Grant]:
        return await self._put(PlacesWork(wishes=wishes))

    async def write_columns(self, run: str, seq: int, columns: RunColumns) -> None:
        await self._put(ColumnsWork(run=run, seq=seq, columns=columns))

    async def keep_event(self, event_id: str, event: str, data: Mapping[str, Json], source: str) -> bool:
        return await self._put(KeepWork(event_id=event_id, event=event, data=data, source=source))

    async def feed(self, *, event_id: str = "", waiter: str = "") -> Sequence[str]:
        return await self._put(FeedWork(event_id=event_id, waiter=waiter))

    async def erase(
        self, run: str, *events: PersonalDataErased, personal: Personal | None = None, token: str = ""
    ) -> None:
        """Erases the payloads of the events' entries, salts and artifacts too, and records that; the chain still
        verifies. With `personal` the tables beside the log are cleaned of it, and names become `token`."""
        files = [digest for event in events for digest in self._artifacts_of(run, event.seqs)]
        await self._put(EraseWork(run, events, personal, token))
        for digest in files:
            self.artifacts.drop(digest)

    async def prune(self, portion: Portion, by: str) -> int:
        """Removes runs whose time is over from every table but the log, and names them in the site's chain."""
        return await self._put(PruneWork(portion, by, self._clock.now()))

    @property
    def bundles_in_use(self) -> frozenset[str]:
        """Versions that this engine has kept: a run that begins on one may not be there yet."""
        return frozenset(self._kept)

    async def tidy(self, *, pages: int = 0, whole: bool = False) -> Tidied:
        """Gives free pages back to the disk: at most `pages`, or all by building the file anew (`whole`).

        Raises StoreUnwritable.
        """
        return await self._put(TidyWork(pages, whole))

    async def write(self, do: Callable[[Connection], T]) -> T:
        """Writes a table that no log speaks of (see `access`), in a commit of the one writer."""
        return await self._put(BesideWork(do=do))

    async def _put(self, work: Work[T]) -> T:
        if self._writer is None:
            raise StoreUnwritable(f"{self._file.name} was opened for reading; only the engine writes to it")
        try:
            done = await self._writer.put(work)
        except StoreUnwritable as error:
            self.refused = str(error)
            raise
        self.refused = ""
        return done

    # -- large values --

    async def _made(self, event: Event) -> tuple[Event, Entry]:
        """As `_stored`; a file is written apart from the loop."""
        entry = encode(event)
        return (event, entry) if entry.size <= LIMIT else await asyncio.to_thread(self._keep_large, event, entry)

    def _stored(self, event: Event) -> tuple[Event, Entry]:
        entry = encode(event)
        return (event, entry) if entry.size <= LIMIT else self._keep_large(event, entry)

    def _keep_large(self, event: Event, entry: Entry) -> tuple[Event, Entry]:
        """Cuts what must stay inline, else puts the payload into an artifact; an outcome is kept even if that fails."""
        smaller = fit(event)
        if smaller is not event:
            return smaller, encode(smaller)
        try:
            digest = self.artifacts.put(apart(entry))
        except OSError as problem:
            if not isinstance(event, OutcomeEvent):
                raise StoreUnwritable(
                    f"a value of {shown_size(entry.size)} cannot be kept under {self.artifacts.root}: "
                    f"{problem.strerror}; nothing of this write was kept"
                ) from None
            alone = without_output(event, f"{shown_size(entry.size)} could not be written ({problem.strerror})")
            return alone, encode(alone)
        return event, stands_for(event, {"artifact": digest, "size": entry.size})


# --- opening ---------------------------------------------------------------------------------------------------------


def open_store(
    folder: Path,
    *,
    clock: Clock,
    writable: bool,
    url: str = "",
    lock: EngineLock | None = None,
    busy: int = BUSY_TIMEOUT,
    floor: int = FLOOR,
    drives: bool = True,
    put_back: str = "",
) -> SqlStore:
    """Opens the store of a project folder (its state stands in `folder/.amends`).

    For writing to a file it needs the engine lock: `lock` if the caller holds it already (and gives it back itself),
    else it is taken here. Opening for writing raises the fence, so every lease of an earlier engine is void; to a
    PostgreSQL any number of engines write, each under a fence of its own, and one that `drives` goes on with the runs
    that it reports about. `busy` is ms, `floor` bytes; `put_back` says that it was put back from a copy, whatever its
    anchor says. Raises EngineBusy, StoreCorrupt, StoreUnwritable, NotFound (reading, and there is no database yet).
    """
    place = folder / ".amends"
    file = database_at(folder, url, busy)
    with ExitStack() as stack:
        try:
            writer = _open_writer(stack, file, folder, clock, lock, drives, put_back) if writable else None
            if writer is not None:
                writer.start()
                stack.callback(writer.close)
            # Given back before the writer ends: the last connection folds the write-ahead file into the database.
            readers = file.readers()
            stack.callback(end_reading, readers)
            if writer is None:
                _check_readable(readers, file)
        except DBAPIError as error:
            raise file.translate(error) from None
        kept = TableArtifacts(place, file, readers) if file.is_shared else Artifacts(place)
        store = SqlStore(file, readers, kept, clock, writer, floor, stack.pop_all())
        store.own_key = public_key(place)
        return store


def database_at(folder: Path, url: str, busy: int = BUSY_TIMEOUT) -> Database:
    """The database of a project's folder at this address; empty: its own file. Raises SettingsError."""
    if not is_address(url):
        return SqliteFile(_path(folder / ".amends", url), busy)
    # Loaded by name: a project that keeps its runs in a file need not pay for the driver.
    made: Database = importlib.import_module("runner.store.postgres").PostgresDatabase(url)
    return made


def _path(place: Path, url: str) -> Path:
    if not url:
        return place / FILE
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return Path(url.removeprefix("sqlite:///"))
    raise SettingsError(
        "the database's address cannot be used: it must begin with postgresql:// or sqlite:///, or be left out"
    )


def _check_readable(readers: Engine, file: Database) -> None:
    with readers.connect() as connection:
        if file.is_empty(connection):
            raise NotFound(f"{file.name} is empty; its tables are made when the first flow is run")
        if is_older(connection, file):
            raise StoreError(f"{file.name} was written by an older Amends; run `amends db upgrade` once")


def _open_writer(
    stack: ExitStack, file: Database, folder: Path, clock: Clock, lock: EngineLock | None, drives: bool, put_back: str
) -> Writer:
    place = folder / ".amends"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(folder)  # else the power may take the whole state folder, with all that was synced inside it
        if not file.is_shared:
            _take(stack, lock or EngineLock(folder), folder)
    except OSError as problem:
        raise StoreUnwritable(f"{place} cannot be used: {problem.strerror}; make it writable for this user") from None
    file.prepare()
    engine = file.writer()
    stack.callback(engine.dispose)
    ensure_schema(engine, file)
    shared = Shared(drives=drives) if file.is_shared else None
    with engine.connect() as connection:
        file.let_in(connection.connection.cursor())
        file.end(connection, commit=True)
        site, anchor, changed = take_over(connection, file, place, clock, shared, put_back)
    writer = Writer(
        file=file, engine=engine, site=site, anchor=anchor, place=place, clock=clock, signer=open_signer(place),
        shared=shared,
    )  # fmt: skip
    writer.remember(changed)
    return writer


def _take(stack: ExitStack, lock: EngineLock, folder: Path) -> None:
    if lock.held:
        return
    if not lock.acquire():
        holder = lock.holder()
        who = f"process {holder.pid}" if holder else "another process"
        raise EngineBusy(f"{who} is the engine of {folder}; give it the command, or stop it first")
    stack.callback(lock.release)
