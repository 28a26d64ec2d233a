"""Forms: the page made out of a flow's inputs, and what is sent with it. No script, no cookie, no sign-in unless asked.

Whatever is wrong, the page comes back with everything that was typed. What fits becomes a run before the thank-you
page is shown; the same page sent again is that same run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fastapi import APIRouter
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from runner.cells import csv_lines
from runner.contract import Json
from runner.contract import digest as digest_of
from runner.errors import InputsInvalid, NotPossible, StoreError
from runner.language.fields import FieldType
from runner.language.flow import Flow
from runner.language.types import MISSING
from runner.recorded import retold
from runner.telling import words
from runner.telling.answers import answer_json, answer_rows, answers_to
from runner.tongue import _, marked
from runner.triggers import form as paper
from runner.triggers.active import Armed
from runner.triggers.form import Entry, Page
from runner.triggers.formdesk import FormDesk, Stamp
from runner.triggers.intake import Coming
from runner.web.console import Console, console_of
from runner.web.guard import Caller, Fills, Refused, Sees, SignInFirst, refuse_strangers
from runner.web.guestbook import address_of, note
from runner.web.render import go, page
from runner.web.shell import LARGEST, POLICY

ROUTES = APIRouter()
log = logging.getLogger("amends.web")
TRAP = "website"
"""A field that people do not see, and programs fill in."""
MOST_FIELDS, MOST_FILES = 5_000, 20
SLOWEST = 300.0
"""Seconds in which a page with its files must be here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """A form for one request: shown, or sent."""

    request: Request
    caller: Caller
    name: str
    armed: Sequence[Armed]

    @property
    def flow(self) -> Flow:
        """The first of the flows that it starts: it gives the page its title."""
        return self.armed[0].bundle.flow

    @property
    def said(self) -> Mapping[str, Json]:
        """Its trigger as written."""
        return self.armed[0].said

    @property
    def is_draft(self) -> bool:
        """Nothing is sent."""
        return "draft" in (self.flow.mode, self.console.project.settings.mode)

    @property
    def console(self) -> Console:
        """Where it was asked for."""
        return console_of(self.request)

    @property
    def desk(self) -> FormDesk:
        """What all forms share."""
        return self.console.forms

    @property
    def fields(self) -> Mapping[str, FieldType]:
        """What stands on it."""
        return paper.fields_of(*self.armed)

    @property
    def needs_sign_in(self) -> bool:
        """Only people who have signed in may send it."""
        return any(one.said.get("sign_in") is True for one in self.armed)

    def show(self, told: Page, stamp: str = "", *, text: str = "", code: int = 200) -> Response:
        """The page with what was typed; a new `stamp` where there is none. `text` is about the whole."""
        told = tuple(map(_retold, told))
        answer = page(
            self.request, self.caller if self.needs_sign_in else NOBODY, "form", code=code, sheet=self, entries=told,
            text=text, faults=[(entry.anchor, _title(told, entry), entry.wrong) for entry in _faults(told)], trap=TRAP,
            stamp=stamp or self.desk.seal.new_stamp(self.name, self.console.now), receipt=self._receipt,
            zone=self.console.project.settings.zone, size=_size, largest=self.console.project.settings.file_limit,
        )  # fmt: skip
        return self.framed(answer)

    def framed(self, answer: Response) -> Response:
        """The answer, with the word where it may stand inside other pages."""
        origins = [str(one) for one in self.said.get("embed", ())]
        if origins:
            policy = POLICY.replace("frame-ancestors 'none'", " ".join(("frame-ancestors 'self'", *origins)))
            answer.headers["Content-Security-Policy"] = policy
        return answer

    def _receipt(self, entry: Entry) -> str:
        return self.desk.seal.receipt(self.name, entry.file) if entry.file is not None else ""


NOBODY = Caller(csrf="-")
"""Who fills in a public form: asked for nothing, and given no cookie."""


# --- shown ---------------------------------------------------------------------------------------------------------


@ROUTES.get("/forms/{name}")
def show(request: Request, caller: Fills, name: str) -> Response:
    """The empty form."""
    sheet = _sheet(request, caller, name)
    answer = sheet.show(paper.blank(sheet.fields))
    answer.headers["Cache-Control"] = "private, no-cache"  # who goes back to it finds this very page, with its stamp
    return answer


@ROUTES.get("/forms/{name}/thanks")
def thank(request: Request, caller: Fills, name: str, reference: str = "") -> Response:
    """After it was sent; the same page as often as it is loaded."""
    sheet = _sheet(request, caller, name)
    told = sheet.desk.seal.reference(reference)
    asking = caller if sheet.needs_sign_in else NOBODY
    return sheet.framed(page(request, asking, "form_sent", sheet=sheet, reference=told))


@ROUTES.get("/forms/{name}/answers.{kind}", include_in_schema=False)
def export(request: Request, caller: Sees, name: str, kind: str, reveal: bool = False) -> Response:
    """What was sent with a form, for a spreadsheet or a program; with personal data for those who may see it."""
    console = console_of(request)
    found = list(answers_to(console.store, name, reveal=reveal and caller.operates))
    if kind not in KINDS or not (found or console.driver.triggers.active.on("form", name)):
        raise Refused(404, _("There is no such form here."))
    if kind == "json":
        return JSONResponse([answer_json(one, console.zone) for one in found])
    text = "".join(csv_lines(answer_rows(found, console.zone)))
    named = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=named)


KINDS = ("csv", "json")


def _sheet(request: Request, caller: Caller, name: str) -> Sheet:
    """Raises Refused where there is none, SignInFirst for a form that asks for it."""
    armed = console_of(request).driver.triggers.active.on("form", name)
    if not armed and request.method == "POST":
        raise Refused(404, _("This form is not there any more, so nothing was sent. Go back to see what you typed."))
    if not armed:
        raise Refused(404, _("There is no such form here."))
    sheet = Sheet(request=request, caller=caller, name=name, armed=armed)
    if sheet.needs_sign_in and not caller.has_signed_in:
        raise SignInFirst(_("Please sign in first."))
    return sheet


def _retold(entry: Entry) -> Entry:
    """The entry with what is wrong in it in the reader's language."""
    said = _("Please fill this in.") if entry.wrong == MISSING else words.sentence(retold(entry.wrong))
    return replace(entry, wrong=said if entry.wrong else "", parts=tuple(map(_retold, entry.parts)))


def _faults(told: Page) -> list[Entry]:
    return [entry for top in told for entry in top.each() if entry.wrong]


def _title(told: Page, entry: Entry) -> str:
    """What an entry is called among all others: Lines 2: sku."""
    around = [one for top in told for one in top.each() if f"{entry.place}.".startswith(f"{one.place}.")]
    names = [str(int(one.name) + 1) if one.name.isdigit() else words.capital(one.name) for one in around]
    return " ".join(names)


def _size(count: float) -> str:
    """A number of bytes as people read it."""
    unit, name = (1_000_000, "MB") if count >= 1_000_000 else (1_000, "KB")
    return f"{max(count / unit, 0.1):.1f}".removesuffix(".0") + f" {name}"


# --- sent ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """What came with a request: values by name, the page as it was typed, whether files came with it."""

    values: Mapping[str, str]
    page: Page
    has_files: bool

    @property
    def order(self) -> str:
        """The button that was pressed, empty for the one that sends."""
        return self.values.get("do", "")


@ROUTES.get("/forms/{name}/send")
def begin_again(request: Request, _caller: Fills, name: str) -> Response:
    """For whoever types the address of a page that was sent."""
    return go(request, f"/forms/{name}")


@ROUTES.post("/forms/{name}/send")
async def send(request: Request, caller: Fills, name: str) -> Response:
    """A button of the page: a row more or less, or the one that sends."""
    sheet = _sheet(request, caller, name)
    is_crowded = sheet.desk.is_crowded(name, address_of(request), sheet.console.now)
    if is_crowded and int(request.headers.get("content-length", "0")) > LARGEST:
        raise Refused(429, _("This form was sent too often. Try again in a quarter of an hour."))
    sent = await _sent(sheet)
    if sheet.needs_sign_in:
        refuse_strangers(request, caller, sent.values.get("csrf", ""))
    written = sent.values.get("stamp", "")
    stamp = sheet.desk.seal.stamp(name, written, sheet.console.now)
    if sent.order:
        if not is_crowded and not sent.has_files:
            sheet.desk.take_back(name, address_of(request))
        return sheet.show(paper.changed(sent.page, sent.order), written if stamp else "")
    if is_crowded:
        note(request, f"the form {name} was sent too often", is_wrong=True)
        text = _("This form was sent too often. Try again in a quarter of an hour.")
        return sheet.show(sent.page, written if stamp else "", text=text, code=429)
    return await _take(sheet, sent, stamp, written)


async def _take(sheet: Sheet, sent: Sent, stamp: Stamp | None, written: str) -> Response:
    if stamp is None:
        text = _("This page was open for very long. Please look through it once more, and send it again.")
        return sheet.show(sent.page, text=text, code=409)
    if sent.values.get(TRAP) or sheet.console.now - stamp.at < sheet.desk.quickest:
        text = _("That was very quick. Please look through it once more, and send it again.")
        return sheet.show(sent.page, written, text=text, code=409)
    if text := _closed(sheet):
        return sheet.show(sent.page, written, text=text, code=503)
    reading = paper.read(sheet.armed, sent.page)
    if not reading.fits:
        text = " ".join(words.sentence(retold(one)) for one in reading.wrong)
        return sheet.show(reading.page, written, text=text, code=422)
    try:
        await asyncio.to_thread(_keep_files, sheet, sent.page)
    except OSError:
        log.exception("the files of a form cannot be kept")
        return sheet.show(sent.page, written, text=_(UNSTORED), code=503)
    return await _begin(sheet, sent, stamp, reading)


def _files_of(told: Page) -> list[str]:
    return [str(entry.file["sha256"]) for top in told for entry in top.each() if entry.file]


def _keep_files(sheet: Sheet, told: Page) -> None:
    """Puts the files of a page where those of runs are; one that was sent before is there already. Raises OSError."""
    sheet.desk.uploads.sweep(sheet.console.now)
    for digest in _files_of(told):
        content = sheet.desk.uploads.content(digest)
        if content is not None:
            sheet.console.store.artifacts.put(content)


def _closed(sheet: Sheet) -> str:
    """Why nothing is taken at the moment; empty where it is."""
    held = sheet.console.driver.engine.limits.held
    if any(f"flow:{one.flow}" in held for one in sheet.armed):
        return _("This form is closed at the moment. Keep this page open, and send it again later.")
    return _(UNSTORED) if sheet.console.store.is_short else ""


async def _begin(sheet: Sheet, sent: Sent, stamp: Stamp, reading: paper.Reading) -> Response:
    """Starts what the form starts, or joins it. What has no run is told to whoever sent it, with all of it kept."""
    starter = sheet.caller.person if sheet.needs_sign_in else ""
    coming = Coming(
        id=stamp.id, digest=digest_of(reading.given), names={"fields": reading.given}, given=reading.given,
        starter=starter,
    )  # fmt: skip
    try:
        took = await sheet.console.driver.triggers.intake.take(sheet.armed, coming)
    except StoreError:
        log.exception("a form cannot be taken")
        return sheet.show(sent.page, sent.values["stamp"], text=_(UNSTORED), code=503)
    except InputsInvalid as error:
        log.warning("form %s: %s", sheet.name, error)
        return sheet.show(sent.page, sent.values["stamp"], text=_(REFUSED), code=409)
    by_status = {one.status: one for one in reversed(took)}
    if "conflict" in by_status:
        return _conflict(sheet, sent.page, by_status["conflict"].run)
    if "started" not in by_status and "refused" in by_status:
        return sheet.show(sent.page, sent.values["stamp"], text=_(REFUSED), code=409)
    if "started" not in by_status and "joined" in by_status:
        return sheet.show(sent.page, sent.values["stamp"], text=_(OVER), code=409)
    for file in _files_of(sent.page):
        sheet.desk.uploads.drop(file)
    run = by_status["started"].run if "started" in by_status else ""
    reference = f"?reference={sheet.desk.seal.signed(run)}" if run else ""
    return go(sheet.request, f"/forms/{sheet.name}/thanks{reference}")


UNSTORED = marked("Nothing can be stored at the moment. Keep this page open, and send it again a little later.")
OVER = marked(
    "There was a request about this already, and it did not go through. Nothing was started now; the people who look "
    "after this form are told."
)
REFUSED = marked("This cannot be taken. It was noted, and the people who look after this form can see why.")


def _conflict(sheet: Sheet, told: Page, run: str) -> Response:
    """The same page was sent before and says something else now, or what it is about is known already."""
    if "trigger" not in sheet.flow.run_key:
        text = _("There is a request about this already, and it says something else. What is here now was not taken.")
        return sheet.show(told, text=text, code=409)
    text = _("This was sent before with other content, and what is here now was not taken.")
    if run:
        text += " " + _("The reference of what was sent before: {reference}.", reference=run)
    if "id" not in sheet.said:
        text += " " + _("Send it again if it is meant as another one.")
    return sheet.show(told, text=text, code=409)


async def _sent(sheet: Sheet) -> Sent:
    """Reads the body; files are kept beside. Raises Refused."""
    try:
        bounds = {"max_files": MOST_FILES, "max_fields": MOST_FIELDS, "max_part_size": LARGEST}
        async with asyncio.timeout(SLOWEST), sheet.request.form(**bounds) as form:
            values = {name: value for name, value in form.multi_items() if isinstance(value, str)}
            uploads = {name: value for name, value in form.multi_items() if isinstance(value, UploadFile)}
            page = paper.typed(sheet.fields, values, {})
            wanted = [entry for top in page for entry in top.each() if entry.kind.kind == "file"]
            files = {one.place: await _file(sheet, one, values, uploads.get(f"in.{one.place}")) for one in wanted}
    except (HTTPException, ClientDisconnect, TimeoutError):
        raise Refused(400, _("This form cannot be read.")) from None
    told = paper.typed(sheet.fields, values, {place: file for place, file in files.items() if file})
    return Sent(values=values, page=told, has_files=any(one.filename for one in uploads.values()))


async def _file(
    sheet: Sheet, entry: Entry, values: Mapping[str, str], upload: UploadFile | None
) -> Mapping[str, Json] | str:
    """The file that was chosen now or before, what is wrong with it, or nothing."""
    desk, console = sheet.desk, sheet.console
    if upload is None or not upload.filename:
        known = desk.seal.file(sheet.name, values.get(f"file.{entry.place}", "")) or {}
        digest = str(known.get("sha256", ""))
        is_here = not known or desk.uploads.has(digest) or console.store.artifacts.has(digest)
        return known if is_here else _("Please choose the file once more.")
    try:
        if console.store.is_short:
            return _(UNSTORED)
        return await asyncio.to_thread(
            desk.uploads.keep, entry.kind, upload.filename, upload.file, size=upload.size or 0,
            largest=console.project.settings.file_limit, now=console.now,
        )  # fmt: skip
    except (ValueError, NotPossible) as error:
        return str(error)
    except OSError:
        log.exception("a file of a form cannot be kept")
        return _(UNSTORED)
