"""The address of this machine that other trainers connect to.

Owns: the choice, where the operator makes none: the address by which this machine reaches the coordinator. And what may
be said instead: an address, a name, or a network interface.
Refuses to know: what listens there. Does not guarantee: that others reach it; a firewall or a translation of addresses
may stand between, and only they would notice.
"""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable
from contextlib import closing
from functools import partial
from urllib.parse import urlsplit

import psutil

from regroup.worker.apart import apart

AGAIN = 1.0  # seconds until a name that meant nothing is looked up again

log = logging.getLogger("regroup.agent")

_INTERNET = {socket.AF_INET: 4, socket.AF_INET6: 6}


class Unreachable(OSError):
    """No address can be told from this; the message says what could be given instead."""


async def reachable_at(given: str | None, link: str, where: Callable[[], str | None]) -> str:
    """The address `given`, else the one towards `link`, or towards what `where` says next while no way leads there.

    Raises Unreachable if what was given is none.
    """
    if given is not None:
        return address_of(given)
    told = False
    while True:
        try:
            return await apart(partial(address_towards, link))
        except OSError as error:
            if not told:
                log.warning("no way leads to the coordinator at %s yet (%s); trying again", link, error.strerror)
            told = True
            await asyncio.sleep(AGAIN)
            link = where() or link


def address_towards(link: str) -> str:
    """The address from which this machine sends to `link` (tcp://host:port). Nothing is sent.

    Raises OSError while the host's name means nothing, or no way leads there.
    """
    there = urlsplit(link)
    found = socket.getaddrinfo(there.hostname, there.port, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, address = found[0]
    with closing(socket.socket(family, kind, protocol)) as sounding:
        sounding.connect(address)
        return str(sounding.getsockname()[0])


def address_of(given: str) -> str:
    """The address that an operator means: it itself, if this machine can listen there, or that of an interface.

    Raises Unreachable.
    """
    interfaces = addresses()
    if given in interfaces:
        if not interfaces[given]:
            raise Unreachable(f"the interface {given} has no address now; there are: {_listed(interfaces)}")
        return interfaces[given][0]
    if given in psutil.net_if_stats():
        raise Unreachable(f"the interface {given} is down; there are: {_listed(interfaces)}")
    if _is_any(given):
        raise Unreachable(f"nobody can connect to {given}: give one address or interface of {_listed(interfaces)}")
    try:
        family = socket.getaddrinfo(given, 0, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((given, 0), family=family).close()
    except OSError as error:
        said = (error.strerror or str(error)).partition(" (while ")[0]  # what follows says the address again
        why = f"{given} is no address of this machine ({said})"
        raise Unreachable(f"{why}: give an address or an interface of {_listed(interfaces)}") from error
    return given


def addresses() -> dict[str, list[str]]:
    """Of each network interface that is up: IPv4 before IPv6, without those that are valid on one cable only."""
    states = psutil.net_if_stats()
    found = {}
    for name, known in psutil.net_if_addrs().items():
        if name in states and states[name].isup:
            internet = sorted((_INTERNET[one.family], one.address) for one in known if one.family in _INTERNET)
            found[name] = [address for _, address in internet if not ipaddress.ip_address(address).is_link_local]
    return found


def _is_any(given: str) -> bool:
    try:
        return ipaddress.ip_address(given).is_unspecified
    except ValueError:
        return False


def _listed(interfaces: dict[str, list[str]]) -> str:
    return "; ".join(f"{name}: {', '.join(known)}" for name, known in interfaces.items() if known)
