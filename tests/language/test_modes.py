"""The mode of a flow changed in its file: one word, and nothing else."""

from __future__ import annotations

import pytest

from runner.errors import NotPossible
from runner.language.modes import with_mode

FLOW = "# Ours\nflow: it\ntitle:   It   # spoken of\nowner: person:me\n{mode}steps:\n  - {{ id: a, read: x.y }}  # mode: draft\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mode: draft\n", "mode: live\n"),
        ("mode:    draft  # not yet\n", "mode:    live  # not yet\n"),
        ("mode: 'draft'\n", "mode: 'live'\n"),
        ('"mode": "draft"\n\n', '"mode": "live"\n\n'),
        ("", "mode: live\n"),
        ("mode: live\n", "mode: live\n"),
    ],
)
def test_only_the_word_changes(before: str, after: str) -> None:
    assert with_mode(FLOW.format(mode=before), "it.yaml", "live") == FLOW.format(mode=after)
    for ends, start in (("\n", "\ufeff"), ("\r\n", "")):
        text = start + FLOW.format(mode=before).replace("\n", ends)
        assert with_mode(text, "it.yaml", "live") == start + FLOW.format(mode=after).replace("\n", ends)


def test_there_and_back_is_the_same() -> None:
    text = FLOW.format(mode="mode: draft  # not yet\n")
    assert with_mode(with_mode(text, "it.yaml", "live"), "it.yaml", "draft") == text


def test_a_file_without_an_end_of_line_gets_a_line() -> None:
    text = "steps: []\nflow: it\ntitle: It\nowner: person:me"
    assert with_mode(text, "it.yaml", "live") == text + "\nmode: live\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("flow: [", "it.yaml cannot be read, so its mode cannot be changed; amends check it.yaml says why"),
        ("- a\n", "it.yaml cannot be read"),
        ("{ flow: it, mode:\n  draft }\n", ""),
        (
            "flow: it\nmode: of\n",
            "it.yaml: mode cannot be changed by itself here; write mode: live on a line of its own",
        ),
        ("{ flow: it, title: It }\n", "it.yaml: mode cannot be changed by itself here"),
    ],
)
def test_what_cannot_be_changed_alone_is_left(text: str, what: str) -> None:
    if not what:
        assert with_mode(text, "it.yaml", "live") == text.replace("draft", "live")
        return
    with pytest.raises(NotPossible, match=what.replace("(", r"\(")):
        with_mode(text, "it.yaml", "live")
