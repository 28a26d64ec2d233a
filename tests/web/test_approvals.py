"""The page of all open approvals."""

from __future__ import annotations

from pathlib import Path

from tests.web.approving import office_at
from tests.web.ground import Browser, words_of


async def test_whoever_sees_runs_sees_what_waits_for_a_yes(tmp_path: Path) -> None:
    async with office_at(tmp_path / "acme") as office:
        eve, tom, aya = [await Browser(office.console).sign_in(f"person:{name}") for name in ("eve", "tom", "aya")]
        assert "Nothing waits for a yes." in words_of(await eve.get("/approvals"))
        run = await office.ask()
        page = await eve.get("/approvals")
        assert "Pay Ben and tell them? A customer is told and paid · for team leads · until" in words_of(page)
        assert (f'href="/runs/{run}"' in page.text, "/review/" in page.text) == (True, False)
        assert f'href="/review/{office.locator(run)}"' in (await tom.get("/approvals")).text
        assert (await aya.get("/approvals")).status_code == 403, "she has no role, and finds hers on the first page"
        path = f"/review/{office.locator(run)}"
        await tom.press(path, f"{path}/decide", answer="no", round="1", hash=office.gate(run).hash)
        assert "Pay Ben" not in words_of(await eve.get("/approvals"))
