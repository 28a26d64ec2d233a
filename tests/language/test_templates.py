"""Templates: what they may hold, which file is taken, and that values stay values."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import EvaluationError
from runner.language.templates import render_mail, template_faults, used_names

WELCOME = """\
subject: Welcome ${{ inputs.name }}

# Hello ${{ inputs.name }}

{% if given(inputs.note) %}
> ${{ inputs.note }}
{% elif inputs.count > 2 %}
Many.
{% else %}
No note.
{% endif %}

{% for line in values.lines %}
- ${{ line.sku }}: **${{ line.qty }}**
{% endfor %}

[Open](${{ values.url }}), ${{ inputs.amount }}
"""
SCOPE: Mapping[str, Any] = {
    "inputs": {"name": "Aya", "note": None, "count": 1, "amount": {"value": 12000, "currency": "JPY"}},
    "values": {"url": "https://ok.example/a?b=1&c=2", "lines": [{"sku": "a_b_", "qty": 2}, {"sku": "c", "qty": 3}]},
}


def mail(
    templates: Mapping[str, str] | str, scope: Mapping[str, Any] = SCOPE, language: str = "en", name: str = "t"
) -> dict[str, str]:
    files = {"t.md": templates} if isinstance(templates, str) else templates
    return render_mail(files, name, scope, language=language, now=0, zone="UTC")


def test_markdown_gives_subject_text_and_html() -> None:
    found = mail(WELCOME)
    assert found["subject"] == "Welcome Aya"
    assert found["text"] == (
        "# Hello Aya\n\nNo note.\n\n- a_b_: **2**\n- c: **3**\n\n[Open](https://ok.example/a?b=1&c=2), 12,000 JPY\n"
    )
    assert "<h1>Hello Aya</h1>" in found["html"]
    assert "<li>a_b_: <strong>2</strong></li>" in found["html"]
    assert '<a href="https://ok.example/a?b=1&amp;c=2">Open</a>, 12,000 JPY' in found["html"]
    assert found["html"].startswith('<!DOCTYPE html>\n<html lang="en">')


def test_text_and_html_stand_side_by_side() -> None:
    files = {
        "t.txt": "Subject: A & B\nHi ${{ inputs.name }}\n",
        "t.html": '<p title="${{ inputs.name }}">${{ inputs.name }}</p>',
    }
    scope = {"inputs": {"name": 'A "B" <c>\nD'}}
    assert mail(files, scope) == {
        "subject": "A & B",
        "text": 'Hi A "B" <c>\nD\n',
        "html": '<p title="A &quot;B&quot; &lt;c&gt;\nD">A &quot;B&quot; &lt;c&gt;<br>\nD</p>',
    }
    assert mail({"t.txt": "Hi"}) == {"subject": "", "text": "Hi", "html": ""}


def test_the_readers_language_chooses_the_file() -> None:
    files = {"t.md": "en", "t.ja.md": "ja", "t.zh-TW.txt": "tw", "t.zh.md": "zh"}
    assert mail(files, language="ja")["text"] == "ja"
    assert 'lang="ja"' in mail(files, language="ja")["html"]
    assert mail(files, language="zh-TW")["text"] == "tw"
    assert mail(files, language="zh-HK")["text"] == "zh"
    assert mail(files, language="fr")["text"] == "en"
    assert mail(files, language="")["text"] == "en"


def test_an_unknown_template_names_the_nearest() -> None:
    with pytest.raises(EvaluationError) as caught:
        mail({"welcome.md": ""}, name="welcom")
    assert str(caught.value) == 'there is no template "welcom.md" or "welcom.txt": did you mean "welcome"?'
    with pytest.raises(EvaluationError, match="put one under templates/"):
        mail({}, name="welcome")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\n{% if true %}\nb\n{% endif %}\nc\n", "a\nb\nc\n"),
        ("a {% if true %}b{% endif %} c", "a b c"),
        ("  {% for x in values.lines %}  \n${{ x.sku }}\n  {% endfor %}\nend", "a_b_\nc\nend"),
        ("{% for x in values.lines %}{% for y in values.lines %}${{ x.sku }}${{ y.sku }} {% endfor %}{% endfor %}", "a_b_a_b_ a_b_c ca_b_ cc "),
        ("{% if false %}a{% elif true %}b{% else %}c{% endif %}", "b"),
        ("{% if '%}' == '%}' %}x{% endif %}", "x"),
        ("{# not closed, #a { } }} %} 5%", "{# not closed, #a { } }} %} 5%"),
        ("\ufeffsubject: x\n\nbody", "body"),
    ],
)  # fmt: skip
def test_blocks_leave_no_gaps(text: str, wanted: str) -> None:
    assert template_faults("t.txt", text) == ()
    assert mail({"t.txt": text})["text"] == wanted


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("${{ inputs.nam }}", 'inputs.nam has no value, did you mean "name"? (in ${{ inputs.nam }})'),
        ("${{ values.lines }}", "a list cannot stand inside a text: use join or json"),
        ("{% if inputs.name %}x{% endif %}", 'a condition must be a yes or no, not the text "Aya"'),
        ("{% for x in inputs.name %}x{% endfor %}", '"for" works on a list, not on the text "Aya"'),
        ("{% for x in values.lines %}${{ y.sku }}{% endfor %}", "y.sku has no value"),
        ("[a](${{ inputs.name }})", 'the text "Aya" is not a web address, so no link can lead there'),
        ("a\n{{ x }}", 'the template cannot be read at line 2: "{{" without "$" is not a marker'),
    ],
)
def test_errors_are_sentences(text: str, sentence: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        mail(text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "column", "what", "hint"),
    [
        ("a\nb {{ x }}", 2, 3, '"{{" without "$" is not a marker', "write ${{ … }}"),
        ("{% set a = 1 %}", 1, 4, '"set" is not in the language of templates', "there are for and if"),
        ("{% include 'x' %}", 1, 4, '"include" is not in the language of templates', "there are for and if"),
        ("{% raw %}{% endraw %}", 1, 4, '"raw" is not in the language of templates', "there are for and if"),
        ("{% extends 'x' %}", 1, 4, '"extends" is not in the language of templates', "there are for and if"),
        ("{% macro a() %}", 1, 4, '"macro" is not in the language of templates', "there are for and if"),
        ("{% %}", 1, 4, '"" is not in the language of templates', "there are for and if"),
        ("{%- if a %}{% endif %}", 1, 1, '"{%-" and "-%}" are not in the language', "leave the sign out: a block alone on its line leaves no gap"),
        ("{# c #}", 1, 1, "comments are not in the language of templates", "leave it out"),
        ("{% for a in b %}", 1, 4, '"for" is never closed', "close it with {% endfor %}"),
        ("x\n{% if a %}{% endfor %}", 2, 14, '"endfor" does not belong here', ""),
        ("{% for a in b %}{% else %}{% endfor %}", 1, 20, '"else" does not belong here', ""),
        ("{% if a %}{% else %}{% elif b %}{% endif %}", 1, 24, '"elif" does not belong here', ""),
        ("{% if %}{% endif %}", 1, 4, '"if" needs a condition', ""),
        ("{% for a, b in c %}{% endfor %}", 1, 4, '"for" is written {% for line in values.lines %}', ""),
        ("{% for inputs in c %}{% endfor %}", 1, 8, '"inputs" is taken', "choose another name for the item"),
        ("{% for _a in c %}{% endfor %}", 1, 8, '"_a" is taken', "choose another name for the item"),
        ("{% if a.b() %}{% endif %}", 1, 8, '".b()" is not in the language', "values have no methods"),
        ("\n${{ a | uper }}", 2, 9, 'there is no filter "uper"', 'did you mean "upper"?'),
        ("subject: ${{ a._b }}\nx", 1, 15, '"_b" begins with "_", no name does', 'write ["_b"] for a field of that name'),
        ("subject: {% if a %}x{% endif %}\n", 1, 10, "a subject has no blocks", "write a if b else c in a marker"),
        ("{% if a", 1, 1, '"{%" is never closed', 'close it with "%}"'),
        ("a\n${{ b", 2, 1, '"${{" is never closed', 'close it with "}}"'),
        ("{% if a %}" * 11 + "{% endif %}" * 11, 1, 104, "blocks are nested more than 10 deep", ""),
    ],
)  # fmt: skip
def test_faults_have_line_and_column(text: str, line: int, column: int, what: str, hint: str) -> None:
    first = template_faults("t.md", text)[0]
    assert (first.line, first.column, first.what, first.hint) == (line, column, what, hint)
    with pytest.raises(EvaluationError):
        mail(text, {"a": 1, "b": [], "c": []})


@pytest.mark.parametrize("name", ["t.doc", "t", ".md", "a.b.c.md", "t.japanese language.md"])
def test_a_file_name_that_is_none(name: str) -> None:
    assert len(template_faults(name, "x")) == 1


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<script>x = '${{ a }}'</script>", "a value cannot stand inside <script>"),
        ("<style>a { color: ${{ a }} }</style>", "a value cannot stand inside <style>"),
        ("<!-- ${{ a }} -->", "a value cannot stand inside a comment"),
        ("<${{ a }}>", "a value cannot stand in the name of a tag"),
        ("<a ${{ a }}>", "a value cannot stand in the name of an attribute"),
        ("<a href=${{ a }}>", 'the attribute "href" needs quotes around its value'),
        ("<p class=x${{ a }}>", 'the attribute "class" needs quotes around its value'),
        ('<a onclick="${{ a }}">', 'a value cannot stand in the attribute "onclick"'),
        ('<p style="color: ${{ a }}">', 'a value cannot stand in the attribute "style"'),
        ('<iframe srcdoc="${{ a }}">', 'a value cannot stand in the attribute "srcdoc"'),
        ("<p {% if true %}class=${{ a }}{% endif %}>", 'the attribute "class" needs quotes around its value'),
        ('<p class="${{ a }}', "a value cannot stand in a tag that is never closed"),
    ],
)
def test_places_in_html_where_no_value_may_stand(text: str, what: str) -> None:
    assert [fault.what for fault in template_faults("t.html", text)] == [what]
    with pytest.raises(EvaluationError):
        mail({"t.txt": "x", "t.html": text}, {"a": "https://x.test"})


def test_addresses_in_html_lead_only_to_the_web() -> None:
    page = '<a href="${{ a }}">x</a><a href="https://x.test/?q=${{ a }}">y</a>'
    assert template_faults("t.html", page) == ()
    html = mail({"t.txt": "x", "t.html": page}, {"a": "https://x.test/?a=1&b=2"})["html"]
    assert 'href="https://x.test/?a=1&amp;b=2"' in html
    assert 'href="https://x.test/?q=https%3A%2F%2Fx.test%2F%3Fa%3D1%26b%3D2"' in html
    for wrong in (
        "javascript:alert(1)",
        " javascript:alert(1)",
        "data:text/html,x",
        "//evil.test",
        "JaVaScRiPt:x",
        "x",
    ):
        with pytest.raises(EvaluationError, match="is not a web address"):
            mail({"t.txt": "x", "t.html": page}, {"a": wrong})
        with pytest.raises(EvaluationError, match="is not a web address"):
            mail("[x](${{ a }})", {"a": wrong})


def test_names_are_found_without_those_of_loops() -> None:
    found = [(".".join(use.path), use.guarded) for use in used_names(WELCOME)]
    assert found == [
        ("inputs.name", False),
        ("inputs.name", False),
        ("inputs.note", True),
        ("inputs.note", True),
        ("inputs.count", False),
        ("values.lines", False),
        ("values.url", False),
        ("inputs.amount", False),
    ]
    first = used_names(WELCOME)[0]
    assert WELCOME[first.offset : first.offset + first.length] == "inputs.name"
    assert all(WELCOME[use.offset : use.offset + use.length] == ".".join(use.path) for use in used_names(WELCOME))


def test_loops_and_texts_are_bounded() -> None:
    scope = {"a": list(range(400)), "b": "x" * 900_000}
    with pytest.raises(EvaluationError, match="loops take more than 100,000 rounds"):
        mail({"t.txt": "{% for x in a %}{% for y in a %}.{% endfor %}{% endfor %}"}, scope)
    with pytest.raises(EvaluationError, match="longer than 1,000,000 characters"):
        mail({"t.txt": "${{ b }}${{ b }}"}, scope)


def test_html_inside_markdown_is_text() -> None:
    html = mail('<b>x</b> <a href="${{ a }}">${{ a }}</a>\n\n<div>\n${{ a }}\n</div>\n', {"a": "<i>"})["html"]
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    assert "<i>" not in html
    assert "<a" not in html
    assert "<div" not in html


class Seen(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


SIGNS = st.text(st.sampled_from(list("ab <>&\"'`*_#[]()!|\\-+=~1.\n:/{}$%")), max_size=40)
PLACES = "**${{ a }}** ${{ a }}\n\n# ${{ a }}\n\n- ${{ a }}\n\n> ${{ a }}\n\n`${{ a }}`\n\n```\n${{ a }}\n```\n\n| ${{ a }} |\n|---|\n| ${{ a }} |\n"


@settings(max_examples=150, deadline=None)
@given(SIGNS)
def test_no_value_draws_anything_in_markdown(value: str) -> None:
    plain = Seen(mail(PLACES, {"a": "x"})["html"]).tags
    tags = Seen(mail(PLACES, {"a": value})["html"]).tags
    assert [tag for tag in tags if tag != "br"] == plain
    assert value.strip() in Seen(mail("`x ${{ a }}`", {"a": value})["html"]).text


@settings(max_examples=100, deadline=None)
@given(SIGNS)
def test_no_value_draws_anything_in_html(value: str) -> None:
    page = "<p title=\"${{ a }}\">${{ a }}</p><i data-x='${{ a }}'>b</i>"
    tags = Seen(mail({"t.txt": "x", "t.html": page}, {"a": value})["html"]).tags
    assert [tag for tag in tags if tag != "br"] == ["p", "i"]
