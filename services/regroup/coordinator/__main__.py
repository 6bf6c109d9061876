"""`regroup-coordinator`, before anything is imported that the base install lacks."""

from regroup.wire.entry import begin


def main() -> None:
    begin("regroup-coordinator", "The cluster's REST API and its decisions.", "coordinator")
    from regroup.coordinator import app  # not before it is known that it can be

    app.main()


if __name__ == "__main__":
    main()
