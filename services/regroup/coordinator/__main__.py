"""`regroup-coordinator`, before anything is imported that the base install lacks."""

from regroup.wire.entry import begin


def main() -> None:
    flags = {"standby": "where another one leads, wait and take over when it dies (REGROUP_STANDBY)"}
    given = begin("regroup-coordinator", "The cluster's REST API and its decisions.", "coordinator", flags=flags)
    from regroup.coordinator import app  # not before it is known that it can be

    app.main(**given)


if __name__ == "__main__":
    main()
