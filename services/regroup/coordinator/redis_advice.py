"""What to do about a Redis that cannot be used, told from what it answered, or did not.

Owns: the words for each cause that an operator can mend, and which causes may pass by themselves.
Refuses to know: the connection, and when it is tried again.
Does not guarantee: that a cause is told apart from another one that looks the same on the wire, as a server that wants
TLS from one that is ending.
"""

import re

OLDEST = (6, 2)  # its ZRANGE BYSCORE, and XRANGE from an open end

ELSEWHERE = "start it, or set REGROUP_REDIS_URL to where it runs"
LOADING = "it reads its files; try again when it has done so"

_ADVICE = (
    (
        r"AuthenticationError|NOAUTH|WRONGPASS|already authenticated|Authentication required|username-password",
        "set REGROUP_REDIS_PASSWORD to its password, or REGROUP_REDIS_URL to one with its user and password",
    ),
    (
        r"NoPermissionError|ACL failure",
        "let its user do all with keys that begin with regroup: (ACL SETUSER name ~regroup:* +@all)",
    ),
    (r"ReadOnlyError|MasterDownError", "it is a replica: set REGROUP_REDIS_URL to its primary"),
    (
        r"CrossSlot|MovedError|ClusterDown|CLUSTERDOWN",
        "it is a Redis Cluster: set REGROUP_REDIS_URL to a single server",
    ),
    (r"OutOfMemory|used memory > 'maxmemory'", "its memory is full: raise its maxmemory"),
    (r"MISCONF|writing to the AOF|No space left", "it cannot write to its disk: make room there, and see its log"),
    (r"BusyLoading|LOADING", LOADING),
    (r"WRONGTYPE", "something else has keys of our names there: name another database, as redis://host:6379/1"),
    (r"DB index|invalid DB", "set REGROUP_REDIS_URL to a database that it has: redis://host:6379/0"),
    (
        r"WRONG_VERSION_NUMBER|RECORD_LAYER|record layer",
        "it speaks no TLS: write redis:// in REGROUP_REDIS_URL, not rediss://",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED",
        "name who signed its certificate: rediss://...?ssl_ca_certs=/path/to/ca.pem in REGROUP_REDIS_URL",
    ),
    (
        r"unknown command|Unknown Redis command|unknown subcommand|of version",
        f"update it: {OLDEST[0]}.{OLDEST[1]} is the oldest version that will do",
    ),
    (r"InvalidResponse|Protocol Error", "something else answers there: set REGROUP_REDIS_URL to where Redis runs"),
    (r"Timeout connecting.* TLS$", f"{ELSEWHERE}; where it speaks no TLS, write redis:// and not rediss://"),
    (r"closed by server|Connection reset", f"{ELSEWHERE}; where it wants TLS, write rediss://"),
)


def what_to_do(kind: str, reason: str, tls: bool) -> str:
    """About an error of this kind, which said so; `tls`: whether it was asked by TLS."""
    text = f"{kind}: {reason}{' TLS' if tls else ''}"
    return next((advice for pattern, advice in _ADVICE if re.search(pattern, text)), ELSEWHERE)


def may_pass(advice: str) -> bool:
    """Whether what is advised so may be mended without anybody's doing: it may just be starting, or ending."""
    return advice.startswith((ELSEWHERE, LOADING))


def in_short(reason: str) -> str:
    """What it said, without what is no help."""
    if re.search("already authenticated|Authentication required", reason):
        return "it wants a password"
    return re.sub(r" script: on @user_script:\d+\.$", "", reason)


def too_old(version: object) -> str | None:
    """Why a server of this version cannot be used; None: it can, or says no version."""
    numbers = re.match(r"(\d+)\.(\d+)", str(version))
    if numbers is None or tuple(map(int, numbers.groups())) >= OLDEST:
        return None
    return f"it is of version {version}"
