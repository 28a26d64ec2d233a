"""Events of a calendar by CalDAV (RFC 4791). The home of icalendar.

A new event has its name from our key and is put with `If-None-Match: *`, so the server itself keeps a second attempt
from making another one. `update` and `cancel` carry the etag of what was seen: an event that somebody has changed since
is left alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

from icalendar import Calendar, Event

from connectors.answers import Seen, text_of
from connectors.rendering import checked_input
from connectors.servers import read_login
from connectors.service import HTTP_SETTINGS, Service, check_settings, no_such_action, read_place, resolver
from runner.clock import DAY, MachineClock
from runner.contract import Action, Connector, Json, Outcome, Purpose, Request, Tools, Undo
from runner.errors import RequestError, SettingsError

_LIFE = 3_650 * DAY
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,120}")
_TEXTS = ("summary", "description", "location", "status")
_FIELDS = (*_TEXTS, "start", "end")
_EVENT = {
    **dict.fromkeys(("summary", "start"), "text"),
    **dict.fromkeys(("end", "description", "location"), "text or empty"),
}
_KEPT = {"uid": "text", "etag": "text", "event": "record"}
_SPACES = {"d": "DAV:", "c": "urn:ietf:params:xml:ns:caldav"}
_QUERY = (
    '<?xml version="1.0" encoding="utf-8"?><c:calendar-query xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav">'
    '<d:prop><d:getetag/><c:calendar-data/></d:prop><c:filter><c:comp-filter name="VCALENDAR">'
    '<c:comp-filter name="VEVENT"><c:time-range start="{}" end="{}"/></c:comp-filter></c:comp-filter></c:filter>'
    "</c:calendar-query>"
)

_ACTIONS = (
    Action(
        name="create",
        title="Makes an event. Times have an offset (2026-09-01T10:00:00+09:00); dates alone make it last whole days.",
        effect="keyed",
        key_life=_LIFE,
        input=_EVENT,
        output=_KEPT,
        undo=Undo(action="cancel", with_={"uid": "${{ output.uid }}", "etag": "${{ output.etag }}"}),
        sample={"uid": "draft", "etag": "", "event": {}},
    ),
    Action(
        name="get",
        title="Reads one event by its uid.",
        effect="read",
        input={"uid": "text"},
        output={"found": "yes_no", **{name: f"{said} or empty" for name, said in _KEPT.items()}},
    ),
    Action(
        name="find",
        title="Reads the events that touch a time; those that come again stand once, at their first time.",
        effect="read",
        input={"from": "text", "to": "text", "most": "integer or empty"},
        output={"found": "yes_no", "events": {"list": "record"}, "count": "integer", "incomplete": "yes_no"},
    ),
    Action(
        name="update",
        title="Changes fields of an event, while it is still what `etag` names.",
        effect="lookup",
        has_lookup=True,
        input={"uid": "text", "etag": "text", "set": "record"},
        output={**_KEPT, "before": "record or empty"},
        undo=Undo(
            action="update",
            with_={"uid": "${{ input.uid }}", "etag": "${{ output.etag }}", "set": "${{ output.before }}"},
        ),
        sample={"uid": "draft", "etag": "", "event": {}, "before": {}},
    ),
    Action(
        name="cancel",
        title="Takes an event out of the calendar; with `etag` only while it is still what that names.",
        effect="keyed",
        key_life=_LIFE,
        input={"uid": "text", "etag": "text or empty"},
        output={"uid": "text", "cancelled": "yes_no"},
        cannot_undo="An event that was taken out is gone; make it again.",
        sample={"uid": "draft", "cancelled": True},
    ),
)


class CalendarKind:
    """The kind `calendar`."""

    name = "calendar"
    title = "Events of a calendar, by CalDAV"

    def settings(self) -> Mapping[str, Json]:
        places = {**HTTP_SETTINGS, "origin": "text"}
        return {**places, "calendar": "text", "user": "text or empty", "password": "secret or empty"}

    def actions(self) -> Mapping[str, Action]:
        return {action.name: action for action in _ACTIONS}

    def connect(self, name: str, settings: Mapping[str, Json], tools: Tools) -> Connector:
        check_settings(name, self.name, self.settings(), settings)
        place, client = read_place(name, settings, tools=tools)
        login = read_login(name, settings)
        made = _Calendar(
            name=name, actions=self.actions(), place=place, client=client, tools=tools, resolve=resolver(tools),
            auth={"basic": dict(zip(("user", "password"), login, strict=True))} if login else {},
            calendar=str(settings["calendar"]).rstrip("/"),
        )  # fmt: skip
        if not made.calendar.startswith("/"):
            raise SettingsError(f"{name}: calendar must be a path on the server, like /ops/bookings/")
        try:
            made.url(made.calendar)
        except RequestError as error:
            raise SettingsError(f"{name}: calendar: {error}") from None
        return made


class _Stop(Exception):
    """No answer that leads on; the outcome says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.summary)
        self.outcome = outcome


@dataclass(kw_only=True)
class _Calendar(Service):
    """One calendar. `calendar` is its path without the slash at the end."""

    calendar: str = ""

    def prepare(self, action: str, input: Mapping[str, Json], *, key: str, purpose: Purpose) -> Request:
        declared = self.actions.get(action) or no_such_action(self.name, action, self.actions)
        if purpose == "find" or (purpose in ("lookup", "undo_lookup") and not declared.has_lookup):
            raise RequestError(f"{self.name}.{action} cannot be asked by a key; use find or get")
        given = {name: value for name, value in checked_input(declared, input).items() if value is not None}
        if action == "create":
            given["uid"] = key if _NAME.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest()[:40]
            _filled(Event(), given)
        if "uid" in given and not _NAME.fullmatch(str(given["uid"])):
            raise RequestError(f'"{given["uid"]}" is no uid that a path can hold')
        if action == "update":
            if not given["set"]:
                raise RequestError("update needs at least one field in set")
            for field_name in given["set"]:
                if field_name not in _FIELDS:
                    raise RequestError(f'an event has no field "{field_name}"; there are {", ".join(_FIELDS)}')
            _filled(Event(), given["set"])
        if action == "find" and _stamp(given["from"]) >= _stamp(given["to"]):
            raise RequestError("from must be before to")
        return Request.of({"calendar": self.url(self.calendar), **given})

    async def send(self, action: str, request: Request, *, key: str, purpose: Purpose, limit: int) -> Outcome:
        asks = purpose in ("lookup", "undo_lookup")
        writes, began = not asks and self.actions[action].effect != "read", asyncio.get_running_loop().time()
        talk = _Talk(service=self, body=request.body, limit=limit, began=began, writes=writes)
        work = {"create": talk.create, "get": talk.get, "find": talk.find, "update": talk.update, "cancel": talk.cancel}
        try:
            return await (talk.asked() if asks else work[action]())
        except _Stop as stop:
            return stop.outcome
        except RequestError as error:  # the event as it is now and the change do not go together
            return Outcome(result="refused", reason="invalid", summary=str(error))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Talk:
    """The requests of one call, within its one limit."""

    service: _Calendar
    body: Mapping[str, Json]
    limit: int
    began: float
    writes: bool
    wrote: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.body['calendar']}/{self.body['uid']}.ics"

    async def create(self) -> Outcome:
        event = Event()
        event.add("uid", self.body["uid"])
        event.add("dtstamp", datetime.fromtimestamp(MachineClock().now() // 1000, UTC))
        calendar = Calendar()
        calendar.add("prodid", "-//Amends//EN")
        calendar.add("version", "2.0")
        calendar.add_component(_filled(event, self.body))
        seen = await self._put(calendar, {"if-none-match": "*"})
        if seen.answer.status != 412 and not 200 <= seen.answer.status < 300:
            return seen.failed()
        found = await self._event()  # 412: an earlier attempt has made it; its etag is not always in the answer
        if found is None:
            return seen.doubtful("unknown", "the event is not there when it is asked for")
        return _applied(self._kept(*found))

    async def get(self) -> Outcome:
        found = await self._event()
        if found is None:
            return _applied({"found": False, "uid": None, "etag": None, "event": None})
        return _applied({"found": True, **self._kept(*found)})

    async def find(self) -> Outcome:
        wanted = _QUERY.format(*(_stamp(self.body[word]).strftime("%Y%m%dT%H%M%SZ") for word in ("from", "to")))
        headers = {"content-type": "application/xml; charset=utf-8", "depth": "1"}
        seen = await self._ask("REPORT", f"{self.body['calendar']}/", headers, wanted)
        if seen.answer.status != 207:
            return seen.failed()
        most = max(1, min(self.body.get("most") or 500, 5_000))
        try:
            events = sorted(_listed(text_of(seen.answer)), key=lambda one: str(one["start"]))
        except (ElementTree.ParseError, ValueError):
            return seen.doubtful("unreadable", "its body is not the list of events it should be")
        cut = events[:most]
        output = {"found": bool(cut), "events": cut, "count": len(cut), "incomplete": len(events) > most}
        return _applied(output)

    async def update(self) -> Outcome:
        found = await self._event()
        if found is None:
            return Outcome(result="refused", reason="not_found", summary=f"there is no event {self.body['uid']}")
        etag, calendar, _ = found
        if etag != self.body["etag"]:
            return _changed(self.body["uid"])
        event = next(iter(calendar.walk("VEVENT")))
        before = {name: value for name, value in _fields(event).items() if name in self.body["set"]}
        _filled(event, self.body["set"])
        seen = await self._put(calendar, {"if-match": etag})
        if seen.answer.status == 412:
            return _changed(self.body["uid"])
        if not 200 <= seen.answer.status < 300:
            return seen.failed()
        now = await self._event()
        if now is None:
            return seen.doubtful("unknown", "the event is not there when it is asked for")
        return _applied({**self._kept(*now), "before": before})

    async def asked(self) -> Outcome:
        """Whether the event holds what an update set. What it held before is not known any more."""
        found = await self._event()
        wanted = Event()
        _filled(wanted, self.body["set"])
        is_so = found is not None and all(
            _fields(found[2]).get(name) == _fields(wanted).get(name) for name in self.body["set"]
        )
        kept = self._kept(*found) if found is not None else {"uid": self.body["uid"], "etag": "", "event": {}}
        return Outcome(
            result="applied", output={**kept, "before": None}, count=int(is_so), external_id=self.body["uid"]
        )

    async def cancel(self) -> Outcome:
        headers = {"if-match": self.body["etag"]} if self.body.get("etag") else {}
        seen = await self._ask("DELETE", self.url, headers)
        status = seen.answer.status
        if status == 412:  # gone, or changed: only a look tells
            status = 404 if await self._event() is None else status
        if status == 412:
            return _changed(self.body["uid"])
        if status not in (404, 410) and not 200 <= status < 300:
            return seen.failed()
        return _applied({"uid": self.body["uid"], "cancelled": 200 <= status < 300})

    async def _event(self) -> tuple[str, Any, Any] | None:
        """(etag, calendar, its event) as the server has it; None where it has none."""
        seen = await self._ask("GET", self.url, {"accept": "text/calendar"})
        if seen.answer.status in (404, 410):
            return None
        if seen.answer.status != 200:
            raise _Stop(self._in_between(seen.failed()))
        try:
            calendar, events = _read(text_of(seen.answer))
            return seen.answer.headers.get("etag", ""), calendar, events[0][0]
        except (ValueError, IndexError):
            raise _Stop(self._in_between(seen.doubtful("unreadable", "its body is no event"))) from None

    async def _put(self, calendar: Any, headers: Mapping[str, str]) -> Seen:
        content = calendar.to_ical().decode()
        return await self._ask("PUT", self.url, {"content-type": "text/calendar; charset=utf-8", **headers}, content)

    async def _ask(self, method: str, url: str, headers: Mapping[str, str], body: str = "") -> Seen:
        left = self.limit - int((asyncio.get_running_loop().time() - self.began) * 1000)
        asked = {"method": method, "url": url, "headers": headers, "body": body}
        reads = method in ("GET", "REPORT")
        if not reads:
            self.wrote.append(method)
        found = await self.service.exchange(asked, scope={}, extra={}, reads=reads, once=not reads, limit=max(left, 1))
        if isinstance(found, Outcome):
            raise _Stop(self._in_between(found) if reads else found)
        return found

    def _in_between(self, outcome: Outcome) -> Outcome:
        """A look that failed says nothing of a write before it; where there was none yet, none has left."""
        if self.wrote:
            return replace(outcome, result="unknown", summary=f"{outcome.summary}, after the change was sent")
        return replace(outcome, result="not_sent") if outcome.result == "unknown" and self.writes else outcome

    def _kept(self, etag: str, calendar: Any, event: Any) -> dict[str, Json]:
        return {"uid": self.body["uid"], "etag": etag, "event": _fields(event)}


def _applied(output: Mapping[str, Json]) -> Outcome:
    return Outcome(result="applied", output=output, external_id=str(output.get("uid") or ""))


def _changed(uid: Json) -> Outcome:
    summary = f"the event {uid} is not what it was when it was read; it was left alone"
    return Outcome(result="refused", reason="conflict", summary=summary)


def _moment(text: Json) -> date | datetime:
    """A date, or a moment in UTC. Raises RequestError."""
    try:
        if len(str(text)) == 10:
            return date.fromisoformat(str(text))
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise RequestError(f'"{text}" must be a moment with its offset, like 2026-09-01T10:00:00+09:00, or a date')
    return moment.astimezone(UTC)


def _stamp(text: Json) -> datetime:
    moment = _moment(text)
    return moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day, tzinfo=UTC)


def _filled(event: Any, fields: Mapping[str, Json]) -> Any:
    """The event with these fields; an empty one is taken out. Raises RequestError."""
    for name, value in fields.items():
        if name not in _FIELDS:
            continue
        place = {"start": "dtstart", "end": "dtend"}.get(name, name)
        event.pop(place, None)
        if name == "end":
            event.pop("duration", None)
        if value not in (None, ""):
            event.add(place, str(value) if name in _TEXTS else _moment(value))
    start, end = (event[place].dt if place in event else None for place in ("dtstart", "dtend"))
    if start is not None and end is not None and not _is_before(start, end):
        raise RequestError("an event ends after it starts, and both are dates or both are moments")
    return event


def _is_before(start: Any, end: Any) -> bool:
    try:
        return isinstance(start, datetime) is isinstance(end, datetime) and bool(start < end)
    except TypeError:  # a moment without a zone and one with
        return True


def _fields(event: Any) -> dict[str, Json]:
    """What an event says, times in UTC; None where it says nothing."""
    found: dict[str, Json] = {name: str(event[name]) if name in event else None for name in _TEXTS}
    for name, place in (("start", "dtstart"), ("end", "dtend")):
        value = event[place].dt if place in event else None
        if isinstance(value, datetime):
            value = value.astimezone(UTC) if value.tzinfo else value
        found[name] = value.isoformat() if isinstance(value, date) else None
    if "duration" in event and "dtstart" in event and isinstance(event["duration"].dt, timedelta):
        found["end"] = (event["dtstart"].dt + event["duration"].dt).isoformat()
    return found


def _listed(text: str) -> Iterator[dict[str, Json]]:
    """The events of a multistatus answer. Raises ParseError, ValueError."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("a document type")
    for answer in ElementTree.fromstring(text).findall("d:response", _SPACES):
        data = answer.findtext(".//c:calendar-data", None, _SPACES)
        etag = answer.findtext(".//d:getetag", "", _SPACES)
        path = urlsplit(answer.findtext("d:href", "", _SPACES)).path
        for _, fields in _read(data)[1][:1] if data else ():
            yield {"uid": unquote(path).rpartition("/")[2].removesuffix(".ics"), "etag": etag, **fields}


def _read(text: str) -> tuple[Any, list[tuple[Any, dict[str, Json]]]]:
    """(the calendar, its events with what they say). Raises ValueError, whatever the library fails by: a field that
    stands twice is a list to it, and a zone that it does not know is the name of a file."""
    try:
        calendar = Calendar.from_ical(text)
        return calendar, [(event, _fields(event)) for event in calendar.walk("VEVENT")]
    except (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError):
        raise ValueError("no calendar") from None


KIND: Any = CalendarKind()
