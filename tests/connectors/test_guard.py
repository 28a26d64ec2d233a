"""The address guard: what is public, what is never, and that odd spellings and wrappings change nothing."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest

from runner.guard import AddressRefused, Guard, is_public

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "2606:4700:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
]
PRIVATE = [
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "192.0.2.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "240.0.0.1", "192.0.0.8", "192.88.99.1",
    "::", "::1", "::7f00:1", "fc00::1", "fd12:3456::1", "2001:db8::1", "3fff::1", "5f00::1", "fec0::1", "100::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::1", "2002:a00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1",
]  # fmt: skip
NEVER = [
    "169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254",
    "fd20:ce::254", "fe80::1", "224.0.0.1", "239.1.1.1", "255.255.255.255", "ff02::1",
    "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1", "::169.254.169.254",
    "2001:0:a9fe:a9fe:0:0:0:0",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    assert str(Guard().check_address(address)) == str(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PRIVATE)
def test_other_addresses_need_a_word(address: str) -> None:
    with pytest.raises(AddressRefused, match="allow_private: true"):
        Guard().check_address(address)
    Guard(allow_private=True).check_address(address)


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_never_connected_to(address: str) -> None:
    for guard in (Guard(), Guard(allow_private=True)):
        with pytest.raises(AddressRefused, match="never connected to"):
            guard.check_address(address)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.1",
        "0x7f000001",
        "1.2.3",
        "017700000001.",
        "127.0.0.01",
        "::1%eth0",
        "[::g]",
    ],
)
async def test_odd_spellings_are_refused(host: str) -> None:
    with pytest.raises(AddressRefused):
        Guard(allow_private=True).check_host(host)
    with pytest.raises(AddressRefused):
        await Guard(allow_private=True).resolve(host, 80)


@pytest.mark.parametrize("host", ["api.example.com", "localhost", "example.com.", "a1.b2.example"])
def test_names_pass_until_they_are_resolved(host: str) -> None:
    Guard().check_host(host)


async def test_all_answers_of_a_name_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "8.8.8.8", "10.0.0.1")
    with pytest.raises(AddressRefused, match=r"shop\.test \(10\.0\.0\.1\)"):
        await Guard().resolve("shop.test", 443)
    answers(monkeypatch, "8.8.8.8", "1.1.1.1", "8.8.8.8")
    assert [address for _, address in await Guard().resolve("shop.test", 443)] == ["8.8.8.8", "1.1.1.1"]


def test_mapped_is_looked_into() -> None:
    assert is_public(ipaddress.ip_address("::ffff:8.8.8.8"))
    assert not is_public(ipaddress.ip_address("::8.8.8.8"))


def answers(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Lets every name have these addresses: the machine's own name service is not to be relied on."""

    def found(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found)
