"""Sealed sums: what can be changed is noticed, what is private stays so, and whole numbers survive the journey."""

import base64
import copy
import os
import pickle
import stat
import traceback

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.errors import FederatedError
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.sealed import SUM_BYTES, SealedSums
from smoothsynth.private.sites import envelope as envelopes
from smoothsynth.private.sites import keys
from smoothsynth.private.sites import keys as files
from smoothsynth.private.sites.envelope import fingerprint_of, seal, taken_apart
from smoothsynth.private.sites.keys import Key, fingerprint, make_key, read_key, read_public, signed_by
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import total_degree

FEATURES = total_degree(2, 3)
TOTALS = [7, -(2**90), 2**100 + 1, 0, -1, 4611686018427387905, 12345678901234567890, 3, -99]


@pytest.fixture
def sender(tmp_path):
    make_key(tmp_path / "sender.key")
    return read_key(tmp_path / "sender.key")


@pytest.fixture
def recipient(tmp_path):
    make_key(tmp_path / "recipient.key")
    return read_key(tmp_path / "recipient.key")


@pytest.fixture
def sealed(sender, recipient):
    return seal([SealedSums(FEATURES, TOTALS)], {"site": "north"}, recipient=recipient.public, sender=sender)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_is_for_its_owner_and_its_public_part_for_all(tmp_path):
    public = make_key(tmp_path / "north.key")
    assert {p.name for p in tmp_path.iterdir()} == {"north.key", "north.pub"}
    assert mode(tmp_path / "north.key") == 0o600
    assert mode(tmp_path / "north.pub") == 0o644
    assert (tmp_path / "north.pub").read_text().strip() == public == read_key(tmp_path / "north.key").public
    assert all(line.startswith("PRIVATE") for line in (tmp_path / "north.key").read_text().splitlines())
    assert read_public(public) == read_public(tmp_path / "north.pub") == public
    assert fingerprint(public) != fingerprint(make_key(tmp_path / "south.key"))
    assert len(fingerprint(public)) == 29


def test_a_key_shows_nothing_and_cannot_be_copied(sender):
    raw = base64.b64encode(sender._signing.private_bytes_raw()).decode()
    assert repr(sender) == "<private key>"
    assert raw not in repr([sender]) + str(sender)
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            way(sender)


def test_a_key_is_never_replaced(tmp_path):
    make_key(tmp_path / "north.key")
    before = (tmp_path / "north.key").read_text()
    with pytest.raises(FederatedError, match="exists already"):
        make_key(tmp_path / "north.key")
    (tmp_path / "north.pub").unlink()
    with pytest.raises(FederatedError, match="exists already"):
        make_key(tmp_path / "north.key")
    assert (tmp_path / "north.key").read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["north.key"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "There is no key"),
        ("", "not a key"),
        ("smoothsynth-public-1:abc", "not a key"),
        (keys._WARNING + "\nPRIVATE AAAA\n", "not a key"),
        (keys._WARNING + "\nPRIVATE ?\n", "not a key"),
        ("é", "cannot be read as a key"),
    ],
)
def test_what_is_no_key_is_refused(content, words, tmp_path):
    path = tmp_path / "x.key"
    if content is not None:
        path.write_text(content, encoding="utf-8")
        path.chmod(0o600)
    with pytest.raises(FederatedError, match=words):
        read_key(path)


def test_a_key_that_others_can_read_is_refused(tmp_path):
    make_key(tmp_path / "north.key")
    (tmp_path / "north.key").chmod(0o640)
    with pytest.raises(FederatedError, match="mode 0640"):
        read_key(tmp_path / "north.key")


@pytest.mark.parametrize("text", ["nothing.pub", "smoothsynth-public-1:", "smoothsynth-public-1:AAAA", "\0"])
def test_what_is_no_public_key_is_refused(text):
    with pytest.raises(FederatedError, match="public key"):
        read_public(text)


LOW_ORDER = [bytes(32), bytes([1]) + bytes(31), bytes.fromhex("ecffffff" + "ff" * 27 + "7f")]


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_public_key_of_low_order_is_refused(point, tmp_path):
    text = "smoothsynth-public-1:" + base64.b64encode(bytes(32) + point).decode()
    with pytest.raises(FederatedError, match="protects nothing"):
        read_public(text)
    (tmp_path / "weak.pub").write_text(text + "\n")
    with pytest.raises(FederatedError, match="protects nothing"):
        read_public(tmp_path / "weak.pub")


def test_sealing_and_opening_returns_the_same_whole_numbers(sealed, recipient):
    opened = taken_apart(sealed).open(recipient)
    assert opened.document == b""
    assert opened.sums([FEATURES])[0].unseal() == tuple(TOTALS)


def test_several_sums_and_facts_travel_together(sender, recipient):
    sums = [SealedSums(FEATURES, TOTALS), SealedSums(FEATURES[:2], [5, -6])]
    text = seal(sums, {"a": "b"}, recipient=recipient.public, sender=sender, document=b"facts")
    opened = taken_apart(text).open(recipient)
    assert opened.document == b"facts"
    assert [s.unseal() for s in opened.sums([FEATURES, FEATURES[:2]])] == [tuple(TOTALS), (5, -6)]
    with pytest.raises(FederatedError, match="one sum for each feature"):
        opened.sums([FEATURES])


def test_every_line_says_private_and_no_sum_can_be_read(sealed):
    assert all(line.startswith("PRIVATE") for line in sealed.splitlines())
    assert max(map(len, sealed.splitlines())) <= 110
    body = base64.b64decode("".join(line[10:] for line in sealed.splitlines() if line.startswith("PRIVATE   ")))
    for total in TOTALS:
        if abs(total) > 10**6:
            assert total.to_bytes(SUM_BYTES, "little", signed=True) not in body


def test_the_length_tells_nothing_of_the_sums(sender, recipient):
    texts = {
        len(seal([SealedSums(FEATURES, [t] * 9)], {"s": "x"}, recipient=recipient.public, sender=sender))
        for t in (0, 1, -1, 2**60, -(2**110))
    }
    assert len(texts) == 1


def test_the_same_sums_are_never_sealed_twice_alike(sender, recipient):
    one, two = (seal([SealedSums(FEATURES, TOTALS)], {}, recipient=recipient.public, sender=sender) for _ in range(2))
    assert not {*one.splitlines()[2:]} & {*two.splitlines()[2:]}


def test_only_the_recipient_can_open(sealed, sender):
    with pytest.raises(FederatedError, match="another key"):
        taken_apart(sealed).open(sender)


def test_only_the_sender_is_the_sender(sealed, sender, recipient):
    assert taken_apart(sealed).is_from(sender.public)
    assert not taken_apart(sealed).is_from(recipient.public)


def changed(text, line, column):
    lines = text.splitlines()
    old = lines[line][column]
    lines[line] = lines[line][:column] + ("A" if old != "A" else "B") + lines[line][column + 1 :]
    return "\n".join(lines) + "\n"


def test_a_change_anywhere_is_noticed(sealed, sender):
    lines, noticed = sealed.splitlines(), 0
    for line, text in enumerate(lines):
        for column in range(0, len(text), 3):
            try:
                accepted = taken_apart(changed(sealed, line, column)).is_from(sender.public)
            except FederatedError:
                accepted = False
            # The last characters of base64 may hold bits that nobody reads.
            assert not accepted or (column >= len(text) - 4 and text.endswith("="))
            noticed += 1
    assert noticed > 150


def test_header_and_body_of_different_envelopes_do_not_fit(sender, recipient):
    """Signed anew by somebody who has a key, the body still belongs to its own header."""
    one, two = (
        taken_apart(seal([SealedSums(FEATURES, TOTALS)], {"site": s}, recipient=recipient.public, sender=sender))
        for s in ("north", "south")
    )
    mixed = envelopes.Envelope({**two.header, "ephemeral": one.header["ephemeral"]}, two.head, one.body, b"", b"")
    with pytest.raises(FederatedError, match="damaged"):
        mixed.open(recipient)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: "",
        lambda t: "hello",
        lambda t: t[: len(t) // 2],
        lambda t: "\n".join(t.splitlines()[:-1]),
        lambda t: "\n".join(t.splitlines()[1:]),
        lambda t: t.replace("PRIVATE site north\n", "PRIVATE site north\nPRIVATE site south\n"),
        lambda t: t.replace("sealed-1", "sealed-2"),
        lambda t: t.replace("PRIVATE ephemeral", "PRIVATE other"),
        lambda t: t + "more\n",
        lambda t: t.replace("PRIVATE   ", ""),
    ],
)
def test_what_is_not_whole_is_refused(spoil, sealed):
    with pytest.raises(FederatedError, match=r"not a whole file|another format|damaged"):
        taken_apart(spoil(sealed))


def test_line_ends_of_mail_programs_are_forgiven(sealed, sender, recipient):
    there = taken_apart(sealed.replace("\n", "\r\n"))
    assert there.is_from(sender.public)
    assert there.open(recipient).sums([FEATURES])[0].unseal() == tuple(TOTALS)


def test_a_weak_ephemeral_key_is_refused(sealed, recipient):
    envelope = taken_apart(sealed)
    zero = base64.b64encode(bytes(32)).decode()
    weak = envelopes.Envelope({"ephemeral": zero}, envelope.head, envelope.body, b"", b"")
    with pytest.raises(FederatedError, match="another key, or is damaged"):
        weak.open(recipient)


def test_signatures_of_others_and_of_other_texts_are_refused(sender, recipient):
    signature = sender.sign(b"text")
    assert signed_by(sender.public, signature, b"text")
    assert not signed_by(sender.public, signature, b"texts")
    assert not signed_by(recipient.public, signature, b"text")
    assert not signed_by(sender.public, b"", b"text")


class _CrashError(Exception):
    pass


def test_a_crash_while_sealing_shows_no_sum(sender, recipient, monkeypatch):
    def crash(*_args):
        raise _CrashError

    monkeypatch.setattr(Key, "sign", crash)
    schema = ss.Schema({name: ss.Number(0, 1) for name in "abc"})
    table = open_table(pa.table({name: np.linspace(0.1, 0.7, 50) for name in "abc"}), schema)
    sums = LocalEngine().sums(table, FEATURES)
    with pytest.raises(_CrashError) as caught:
        seal([sums], {"site": "north"}, recipient=recipient.public, sender=sender)
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    shown = "".join(f"{v}" for f in told.stack if "src/smoothsynth" in f.filename for v in (f.locals or {}).values())
    assert "<sealed sums>" in shown
    for total in sums.unseal():
        assert str(total) not in shown
        assert repr(total.to_bytes(SUM_BYTES, "little", signed=True))[2:-1] not in shown


def test_digests_tell_sums_apart():
    assert fingerprint_of(SealedSums(FEATURES, TOTALS)) == fingerprint_of(SealedSums(FEATURES, TOTALS))
    assert fingerprint_of(SealedSums(FEATURES, TOTALS)) != fingerprint_of(SealedSums(FEATURES, [*TOTALS[:-1], 0]))


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    files.write_new(tmp_path / "x", "text", private=True)
    assert mode(tmp_path / "x") == 0o600
    with pytest.raises(FederatedError, match="exists already"):
        files.write_new(tmp_path / "x", "other", private=True)
    files.write_new(tmp_path / "x", "third", private=True, replace=True)
    assert (tmp_path / "x").read_text() == "third"

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for name in ("x", "y"):
        with pytest.raises(FederatedError, match="No space left"):
            files.write_new(tmp_path / name, "fourth", private=True, replace=name == "x")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "third"


def test_a_disk_without_links_will_do(tmp_path, monkeypatch):
    def no_links(*_args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    files.write_new(tmp_path / "x", "text", private=True)
    assert (tmp_path / "x").read_text() == "text"
    assert mode(tmp_path / "x") == 0o600
    with pytest.raises(FederatedError, match="exists already"):
        files.write_new(tmp_path / "x", "other", private=True)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "text"


def test_a_file_that_cannot_be_written_is_found_beforehand(tmp_path):
    files.check_new(tmp_path / "x")
    (tmp_path / "x").write_text("")
    with pytest.raises(FederatedError, match="exists already"):
        files.check_new(tmp_path / "x")
    with pytest.raises(FederatedError, match="Nothing can be written"):
        files.check_new(tmp_path / "no" / "x")
    with pytest.raises(FederatedError, match="There is no file"):
        files.read_text(tmp_path / "none")
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FederatedError, match="not a text file"):
        files.read_text(tmp_path / "b")


def test_without_the_library_the_error_says_what_to_install(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(FederatedError, match=r"pip install 'smoothsynth\[federated\]'"):
        make_key(tmp_path / "north.key")
    assert list(tmp_path.iterdir()) == []
