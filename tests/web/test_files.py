"""Files of runs as downloads: who gets them, in which dress, and what is said where they are gone."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import httpx

from runner.cli import run_command
from runner.web.console import Console
from tests.web.approving import Office, office_at
from tests.web.filling import HEAD, Filler, office, runs_of
from tests.web.ground import Browser, words_of

CLAIM = (
    HEAD.format("claim", "A claim")
    + """\
trigger: { form: claim }
inputs:
  paper: { file: { kinds: [txt, html] }, label: Paper }
  secret: { file: { kinds: [txt] }, personal: true, label: Secret }
steps:
  - id: go
    approve: Is it right?
    covers: [note]
    shows: [inputs.paper]
    by: [person:tom, person:olga]
  - id: note
    do: records.create
    with: { collection: notes, name: one, paper: "${{ inputs.paper }}" }
    compensate: cancel
"""
)
PAGE = b"<script>alert(1)</script>"
HIDDEN = b"nobody else's"
PAPER, SECRET = sha256(PAGE).hexdigest(), sha256(HIDDEN).hexdigest()


async def claimed(console: Console) -> str:
    """A run with two files that asks for its approval."""
    filler = await Filler(console, "claim").open()
    sent = await filler.send(
        files={"in.paper": ("領収書 1.html", PAGE, "text/html"), "in.secret": ("secret.txt", HIDDEN, "text/plain")}
    )
    assert sent.status_code == 303, words_of(sent)
    (view,) = runs_of(console)
    await console.driver.engine.rest(view.run)
    return view.run


def is_barred(answer: httpx.Response) -> bool:
    """Whether a browser only saves it, whatever it is."""
    head = answer.headers
    return (
        head["content-type"] == "application/octet-stream"
        and head["x-content-type-options"] == "nosniff"
        and head["content-security-policy"].startswith("sandbox;")
        and head["content-disposition"].startswith("attachment; filename*=UTF-8''")
    )


async def test_a_run_s_files_are_saved_by_whoever_sees_runs(tmp_path: Path) -> None:
    async with office(tmp_path / "acme", {"claim": CLAIM}) as console:
        run = await claimed(console)
        vera, olga, paul = [await Browser(console).sign_in(f"person:{name}") for name in ("vera", "olga", "paul")]
        page = (await vera.get(f"/runs/{run}")).text
        assert (f"/runs/{run}/file/{PAPER}" in page, SECRET in page) == (True, False)
        answer = await vera.get(f"/runs/{run}/file/{PAPER}")
        assert (answer.content, is_barred(answer)) == (PAGE, True)
        assert answer.headers["content-disposition"].endswith("''%E9%A0%98%E5%8F%8E%E6%9B%B8%201.html")
        hidden = f"/runs/{run}/file/{SECRET}"
        assert [(await one.get(f"{hidden}?reveal=true")).status_code for one in (vera, olga, paul)] == [404, 200, 403]
        assert f"{hidden}?reveal=true" in (await olga.get(f"/runs/{run}?reveal=1")).text
        assert (await olga.get(hidden)).status_code == 404
        assert (await Browser(console).get(f"/runs/{run}/file/{PAPER}")).status_code == 303, "sign in first"
        for name, code in (("領収書 1.html", 0), ("secret.txt", 2), ("領収書 1.html", 2)):
            words = [
                "--project",
                str(console.amends.folder),
                "runs",
                "file",
                run,
                name,
                "--out",
                str(tmp_path / "saved"),
            ]
            assert run_command(words) == code, "the last would overwrite the first"
        assert (tmp_path / "saved").read_bytes() == PAGE
        console.store.artifacts.drop(PAPER)
        gone = await vera.get(f"/runs/{run}/file/{PAPER}")
        assert (gone.status_code, "it was erased" in words_of(gone)) == (410, True)


async def test_an_approver_opens_only_what_is_shown(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme", more="") as asked:
        await _approver(asked)


async def _approver(asked: Office) -> None:
    console = asked.console
    flow = CLAIM.replace("person:olga", "person:adam")
    (console.amends.folder / "flows" / "claim.yaml").write_text(flow, encoding="utf-8")
    await console.driver.triggers.active.look()
    console.forms.quickest = 0
    run = await claimed(console)
    await console.driver.notifier.send_due()
    path = f"/review/{asked.locator(run)}"
    stranger = await Browser(console).get(f"{path}/file/{PAPER}")
    assert (stranger.status_code, PAGE in stranger.content) == (403, False)
    tom = await asked.proved(run)
    page = await tom.get(path)
    assert f'href="{path}/file/{PAPER}"' in page.text
    assert "Started by the form claim." in words_of(page)
    assert page.text.count(">Paper<") == 2, "by its label, where it is shown and where it is sent"
    assert "Add a record to notes" in words_of(page)
    answer = await tom.get(f"{path}/file/{PAPER}")
    assert (answer.content, is_barred(answer)) == (PAGE, True)
    assert (await tom.get(f"{path}/file/{SECRET}")).status_code == 404, "the approval does not show it"
    assert (
        await tom.press(path, f"{path}/decide", answer="no", round="1", hash=asked.gate(run).hash)
    ).status_code == 303
    over = await tom.get(f"{path}/file/{PAPER}")
    assert (over.status_code, PAGE in over.content) == (409, False)
