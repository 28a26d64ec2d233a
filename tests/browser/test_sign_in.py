"""From a mail to a decision by way of a provider on another site, in a real browser on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core import events as e
from tests.browser.ground import CHROMIUM, chromium, has_no_scrolling_sideways, office_on_a_port, opened
from tests.browser.test_review import link_in
from tests.support.processes import OidcProcess

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium on this computer (apt-get install chromium)"),
    pytest.mark.timeout(120),
]


async def test_an_approver_signs_in_at_another_site(tmp_path: Path) -> None:
    with OidcProcess() as provider:
        provider.know("tom", email="tom@acme.test", email_verified=True)
        host = f"localhost:{provider.ports[0]}"
        line = f"sign_in: {{ oidc: 'http://{host}', client: amends, secret: {{ secret: OIDC_SECRET }} }}\n"
        folder = tmp_path / "acme"
        folder.mkdir()
        (folder / ".env").write_text("OIDC_SECRET=a secret of some length\n")
        async with office_on_a_port(folder, settings=line) as office, chromium() as browser:
            run = await office.ask()
            async with opened(browser, width=320, script=False) as page:
                await page.goto(link_in(office, "tom@acme.test"))
                assert await has_no_scrolling_sideways(page)
                await page.get_by_role("link", name=f"Sign in at {host}").click()
                await page.locator("input[name=sub]").fill("tom")
                await page.locator("input[name=sub]").press("Enter")
                await page.get_by_role("heading", name="Pay Ben and tell them?").wait_for()
                assert page.url == link_in(office, "tom@acme.test")
                await page.get_by_role("button", name="Send this mail and add a record to payments").click()
                await page.get_by_text("This was decided: yes.").wait_for()
            decided = [row.event for row in office.console.store.log(run) if isinstance(row.event, e.ApprovalDecided)]
            assert [(one.by, one.proof) for one in decided] == [("person:tom", "sign_in")]
