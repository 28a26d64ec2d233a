"""Two scenes on a real cluster and PostgreSQL; the long form is `python -m tests.trust scenes`."""

from __future__ import annotations

import pytest

from tests.trust.scenes import Told, suite, told_of

FILE = "tests/cases/test_engine_h.py"
AS_EVER, TWICE = "test_h1_gone_alone_is_final_at_once", "test_h1_good_gone_and_later_each_get_what_is_theirs"


@pytest.mark.timeout(240)
def test_scenes_are_driven_by_the_cluster_and_a_mistake_in_its_engine_is_told() -> None:
    told = told_of(FILE, "every call is made twice", (AS_EVER, TWICE))
    assert (told.passed, told.skipped, told.driven) == ([AS_EVER], {}, 2)
    assert [told.wrong[0].partition(": ")[0], *told.wrong[1:]] == [f"{FILE}::{TWICE}"]


def test_what_is_wrong_is_told() -> None:
    told = Told(file="f.py")
    for test, said in (("a", "passed"), ("b", "skipped"), ("c", "failed"), ("d", "passed"), ("d", "failed")):
        told.hear({"test": f"f.py::{test}", "is": "begun", "why": ""})
        told.hear({"test": f"f.py::{test}", "is": said, "why": said})
    told.hear({"test": "f.py::e", "is": "begun"})
    assert (told.passed, told.skipped) == (["a"], {"b": "skipped"})
    assert told.wrong == [
        "f.py::c: failed", "f.py::d: failed", "f.py::e: did not come to its end", "f.py: the cluster has driven no run",
    ]  # fmt: skip


def test_the_suite_has_the_files_that_start_an_engine() -> None:
    assert {"tests/cases/test_engine_a.py", "tests/lists/test_each.py", "tests/people/test_approvals.py"} <= {*suite()}
    assert "tests/cases/test_value_cases.py" not in suite()
