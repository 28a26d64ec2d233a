"""Whom a real run is about cannot be known from the case that was made out of it."""

from __future__ import annotations

from pathlib import Path

from runner.rehearsal.stand_ins import StandIns
from tests.flows.stage import project_of
from tests.rehearsal.stage import project_in

FLOW = """\
inputs: { who: { text: null, personal: true }, email: email, phone: phone or empty, note: text or empty }
steps:
  - id: account
    do: shop.open_account
    with: { name: "${{ inputs.who }}", email: "${{ inputs.email }}" }
    compensate: { none: It does no harm. }
"""
GIVEN = {"who": "Sato Aya", "email": "aya@customer.test", "phone": "+81 90 1234 5678", "note": "call 3 times"}


def seen(folder: Path) -> StandIns:
    found = StandIns(project_of(project_in(folder, FLOW)).bundle("sample"))
    found.see_inputs("sample", {"who": "text", "email": "email", "phone": "phone", "note": "text"}, GIVEN)
    return found


def test_one_record_is_one_person_and_the_same_everywhere(tmp_path: Path) -> None:
    stand_ins = seen(tmp_path / "flows")
    assert stand_ins.without(GIVEN) == {
        "who": "Words of person 1", "email": "person1@example.test", "phone": "+81 3 0000 0001", "note": "call 3 times",
    }  # fmt: skip
    stand_ins.see_call("shop.open_account", "output", {"id": "a_7", "email": "aya@customer.test", "name": "Aya S."})
    stand_ins.see_call("shop.open_account", "output", {"id": "a_8", "email": "tom@other.test", "name": "Tom"})
    told = "Aya S. <aya@customer.test> wrote to Tom (tom@other.test), order a_7"
    assert stand_ins.without([told]) == [
        "Person 1 <person1@example.test> wrote to Person 2 (person2@example.test), order a_7"
    ]


def test_addresses_inside_of_texts_and_fields_that_are_called_like_a_persons(tmp_path: Path) -> None:
    stand_ins = seen(tmp_path / "flows")
    stand_ins.see(
        {"subject": "From kim@x.test, urgent", "street": "Main Street 5", "customer": "c_17", "client": "Kim"}
    )
    assert stand_ins.without({"subject": "From kim@x.test, urgent", "a": "Main Street 5", "b": "c_17", "c": "Kim"}) == {
        "subject": "From person2@example.test, urgent", "a": "Person 3", "b": "c_17", "c": "Person 4",
    }  # fmt: skip


def test_parts_of_a_name_and_numbers_inside_of_sentences(tmp_path: Path) -> None:
    stand_ins = seen(tmp_path / "flows")
    stand_ins.see({"name": "Mori Hana", "note": "Call 090-1234-5678 after 2026-09-07, order 00123-4"})
    assert stand_ins.without("Mori says: 090-1234-5678, on 2026-09-07, order 00123-4") == (
        "Person 2 says: +81 3 0000 0002, on 2026-09-07, order 00123-4"
    )


def test_a_list_of_persons_is_several(tmp_path: Path) -> None:
    stand_ins = seen(tmp_path / "flows")
    rows = [{"name": "Ito", "email": "ito@x.test"}, {"name": "Abe", "email": "abe@x.test"}]
    stand_ins.see({"rows": rows})
    assert stand_ins.without(rows) == [
        {"name": "Person 2", "email": "person2@example.test"},
        {"name": "Person 3", "email": "person3@example.test"},
    ]
