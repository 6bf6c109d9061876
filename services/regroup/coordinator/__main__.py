"""`regroup-coordinator`, before anything is imported that the base install lacks."""

import sys

from regroup.wire.entry import begin


def main() -> None:
    flags = {
        "standby": "where another one leads, wait and take over when it dies (REGROUP_STANDBY)",
        "check": "ask the one that runs here whether it leads and its store answers, or it stands by; 0 if so",
    }
    given = begin("regroup-coordinator", "The cluster's REST API and its decisions.", "coordinator", flags=flags)
    if given.pop("check", False):
        from regroup.coordinator import check

        sys.exit(check.check())
    from regroup.coordinator import app  # not before it is known that it can be

    app.main(**given)


if __name__ == "__main__":
    main()
