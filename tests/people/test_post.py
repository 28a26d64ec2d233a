"""One person is told: by mail through a real server, by chat through a real service."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.people.office import make_office, parts, post_of
from tests.support.http_service import HttpService
from tests.support.smtp_service import SmtpScript, SmtpService


async def test_a_mail_is_text_and_a_small_page_in_the_person_s_language(tmp_path: Path) -> None:
    async with SmtpService() as mail:
        project = make_office(tmp_path / "it", mail.port)
        post, aya = post_of(project), project.people.people["aya"]
        words = "<b>One</b>\nline two\n\n次の段落"
        sent = await post.mail(aya, "お願い", words, "k1", link="https://amends.test/review/x?a=1&b=2")
        assert (sent.result, post.language(aya), post.channels(aya)) == ("applied", "ja", ("mail",))
        assert (mail.mails[0].to, mail.mails[0].subject) == (("aya@acme.test",), "お願い")
        text, html = parts(mail)
        assert text.replace("\r\n", "\n") == f"{words}\n\nhttps://amends.test/review/x?a=1&b=2\n"
        assert '<html lang="ja">' in html
        assert "<p>&lt;b&gt;One&lt;/b&gt;<br>\nline two</p>\n<p>次の段落</p>" in html.replace("\r\n", "\n")
        assert html.count('href="https://amends.test/review/x?a=1&amp;b=2"') == 2


async def test_one_key_has_one_message_id(tmp_path: Path) -> None:
    async with SmtpService() as mail:
        project = make_office(tmp_path / "it", mail.port)
        post, tom = post_of(project), project.people.people["tom"]
        for key in ("a", "a", "b"):
            assert (await post.tell("mail", tom, "S", "T", key)).result == "applied"
        ids = [each.message_id for each in mail.mails]
        assert ids[0] == ids[1] != ids[2]
        assert post.language(tom) == "en"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (SmtpScript(replies={"tom@acme.test": "550 5.1.1 nobody"}), ("refused", "invalid")),
        (SmtpScript(replies={"tom@acme.test": "451 4.3.0 later"}), ("refused", "unavailable")),
        (SmtpScript(at_connect=["drop"]), ("not_sent", "connection")),
        (SmtpScript(after_dot=["drop"]), ("unknown", "connection")),
    ],
)
async def test_what_became_of_a_mail(tmp_path: Path, script: SmtpScript, told: tuple[str, str]) -> None:
    async with SmtpService(script) as mail:
        project = make_office(tmp_path / "it", mail.port)
        sent = await post_of(project).mail(project.people.people["tom"], "S", "T", "k")
        assert (sent.result, sent.reason) == told


async def test_what_cannot_be_sent_is_told_and_raises_nothing(tmp_path: Path) -> None:
    project = make_office(tmp_path / "it", 9)
    post, tom = post_of(project), project.people.people["tom"]
    assert (await post.mail(replace(tom, mail="nobody"), "S", "T", "k")).reason == "invalid"
    project.__dict__["settings"] = replace(project.settings, tell_by="")
    assert post.channels(tom) == ()
    assert (await post.mail(tom, "S", "T", "k")).summary == "amends.yaml has no line tell_by"


async def test_a_chat_message_goes_where_the_secret_says(tmp_path: Path) -> None:
    async with HttpService() as chat:
        project = make_office(tmp_path / "it", 9)
        bob = project.people.people["bob"]
        post = post_of(project, BOB_CHAT=f"json://127.0.0.1:{chat.port}/room")
        assert post.channels(bob) == ("mail", "chat")
        sent = await post.tell("chat", bob, "Please look", "A run waits.", "k", link="https://amends.test/x")
        assert sent.result == "applied"
        [seen] = chat.requests
        told = json.loads(seen.body)
        assert (seen.path, told["title"]) == ("/room", "Please look")
        assert told["message"] == "A run waits.\n\nhttps://amends.test/x"
        gone = post_of(project, BOB_CHAT="json://127.0.0.1:9/")
        assert (await gone.chat(bob, "S", "T")).result == "not_sent"
        wrong = post_of(project, BOB_CHAT="nonsense")
        assert (await wrong.chat(bob, "S", "T")).result == "refused"
