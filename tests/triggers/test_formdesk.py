"""What a form's page carries cannot be made up, files are what they say, and nobody fills the disk."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest

from runner.clock import DAY
from runner.errors import NotPossible
from runner.language.fields import FieldType, field_type
from runner.triggers import uploads
from runner.triggers.formdesk import LIFE, OF_ALL, OF_ONE, SPAN, FormDesk, Seal
from runner.triggers.uploads import Uploads, clean_name, is_what_it_says

NOW = 1_788_220_800_000
ANY = FieldType(kind="file")


def zipped() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a.txt", "a")
    return made.getvalue()


CONTENTS = {
    "pdf": b"%PDF-1.7\n%", "jpg": b"\xff\xd8\xff\xe1\0\x10Exif", "jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF", "zip": zipped(),
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "xlsx": zipped(), "heic": b"\0\0\0\x18ftypheic", "webp": b"RIFF\0\0\0\0WEBPVP8",
    "doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "csv": "名前,年\n綾,1\n".encode("cp932"), "txt": "あ".encode("utf-16"),
    "json": b"{}", "step": b"ISO-10303-21;",
}  # fmt: skip


@pytest.mark.parametrize("kind", CONTENTS)
def test_the_content_says_what_a_file_is(kind: str) -> None:
    assert is_what_it_says(kind, CONTENTS[kind])
    assert not is_what_it_says(kind, b"MZ\x90\0\3\0"), "a program under another name"
    wrong = {other for other in CONTENTS if kind != other and is_what_it_says(kind, CONTENTS[other])}
    alike = [{"jpg", "jpeg"}, {"zip", "xlsx"}, {"csv", "txt", "json", "step", "pdf"}]
    assert kind == "step" or wrong <= next((group for group in alike if kind in group), set())


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("領収書.pdf", "領収書.pdf"),
        ("か\u3099いしゃ.pdf", "がいしゃ.pdf"),
        ("C:\\Users\\aya\\a.pdf", "a.pdf"),
        ("../../etc/passwd", "passwd"),
        ("fdp.\u202etxt\u2066.exe", "fdp.txt.exe"),
        ("a\r\nX: y.pdf", "aX: y.pdf"),
        ("あ" * 300 + ".pdf", "あ" * 117 + ".pdf"),
    ],
)
def test_a_name_is_only_a_name(sent: str, kept: str) -> None:
    assert clean_name(sent) == kept


def keep(
    where: Uploads, name: str, data: bytes, kind: FieldType = ANY, *, size: int = 0, now: int = NOW
) -> dict[str, object]:
    return where.keep(kind, name, io.BytesIO(data), size=size or len(data), largest=1_000, now=now)


def test_a_file_waits_until_the_form_is_sent(tmp_path: Path) -> None:
    where = Uploads(tmp_path)
    kept = keep(where, "領収書.PDF", CONTENTS["pdf"])
    assert kept == {"name": "領収書.PDF", "size": 10, "kind": "pdf", "sha256": kept["sha256"]}
    assert where.content(str(kept["sha256"])) == CONTENTS["pdf"]
    assert where.content("../" + str(kept["sha256"])) is None
    assert where.content("0" * 64) is None


@pytest.mark.parametrize(
    ("name", "data", "size", "sentence"),
    [
        ("a.pdf", b"", 0, '"a.pdf" is empty'),
        ("a.exe", b"MZ", 0, '"a.exe" is not one of the kinds pdf, jpg'),
        ("a", b"MZ", 0, '"a" is not one of the kinds pdf, jpg'),
        ("a.pdf", b"MZ", 0, 'the content of "a.pdf" is not what its name says'),
        ("a.pdf", b"%PDF-", 501, '"a.pdf" has 501 bytes, at most 500 are allowed'),
    ],
)
def test_a_file_that_does_not_fit_is_not_kept(tmp_path: Path, name: str, data: bytes, size: int, sentence: str) -> None:
    where, kind = Uploads(tmp_path), field_type({"file": {"kinds": ["pdf", "jpg"], "max": "500 B"}})
    with pytest.raises(ValueError) as told:
        keep(where, name, data, kind, size=size)
    assert str(told.value) == sentence
    assert not (tmp_path / "uploads").exists()
    assert keep(where, "a.jpeg", CONTENTS["jpg"], kind)["kind"] == "jpeg", "a jpg by its other name"
    with pytest.raises(ValueError, match=r"at most 1,000 are allowed"):
        keep(where, "a.pdf", b"%PDF-", size=1_001)


def test_files_that_wait_have_a_bound_and_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = Uploads(tmp_path)
    monkeypatch.setattr(uploads, "BOUND", 25)
    old = str(keep(where, "a.txt", b"a" * 10)["sha256"])
    os.utime(tmp_path / "uploads" / old, (NOW / 1000, NOW / 1000))
    keep(where, "b.txt", b"b" * 10)
    with pytest.raises(NotPossible):
        keep(where, "c.txt", b"c" * 10)
    assert where.content(old) is not None
    keep(where, "c.txt", b"c" * 5, now=NOW + DAY + 1)
    assert where.content(old) is None


def test_nobody_else_makes_what_a_page_carries(tmp_path: Path) -> None:
    seal = Seal(tmp_path)
    written = seal.new_stamp("signup", NOW)
    stamp = seal.stamp("signup", written, NOW + 5)
    assert stamp is not None
    assert (len(stamp.id), stamp.at) == (24, NOW)
    assert Seal(tmp_path).stamp("signup", written, NOW) == stamp, "also after a restart"
    other = stamp.id.translate(str.maketrans("0123456789abcdef", "123456789abcdef0"))
    for odd in ("", "x", "ä", written[:-1], written.replace(stamp.id, other), seal.receipt("signup", {"name": "a"})):
        assert seal.stamp("signup", odd, NOW) is None, odd
    assert seal.stamp("other", written, NOW) is None
    assert seal.stamp("signup", written, NOW + LIFE + 1) is None
    file = {"name": "領収書.pdf", "size": 3, "kind": "pdf", "sha256": "a" * 64}
    receipt = seal.receipt("signup", file)
    assert seal.file("signup", receipt) == file
    assert seal.file("other", receipt) is None
    assert seal.file("signup", receipt.replace("a" * 64, "b" * 64)) is None
    assert seal.file("signup", written) is None
    signed = seal.signed("261129-k3x9m2qa")
    assert seal.reference(signed) == "261129-k3x9m2qa"
    assert [seal.reference(odd) for odd in ("", "x", "261129-k3x9m2qb" + signed[15:], signed[:-1], "a.b")] == [""] * 5


def test_the_key_is_the_owner_s_alone(tmp_path: Path) -> None:
    Seal(tmp_path)
    assert stat.S_IMODE((tmp_path / "forms.key").stat().st_mode) == 0o600


def test_a_form_is_not_taken_too_often(tmp_path: Path) -> None:
    desk = FormDesk(tmp_path)
    tried = [desk.is_crowded("a", "10.0.0.1", NOW) for _ in range(OF_ONE + 1)]
    assert tried == [False] * OF_ONE + [True]
    assert not desk.is_crowded("a", "10.0.0.2", NOW)
    assert not desk.is_crowded("b", "10.0.0.1", NOW)
    assert not desk.is_crowded("a", "10.0.0.1", NOW + SPAN + 1)
    crowd = [desk.is_crowded("c", f"10.0.{n // 250}.{n % 250}", NOW) for n in range(OF_ALL + 1)]
    assert crowd == [False] * OF_ALL + [True]
