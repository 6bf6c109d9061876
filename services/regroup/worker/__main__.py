"""`regroup-agent`, before anything is imported that the base install lacks."""

from regroup.wire.entry import begin


def main() -> None:
    begin("regroup-agent", "One worker of a cluster, on this machine.", "worker")
    from regroup.worker import serving  # not before it is known that it can be

    serving.main()


if __name__ == "__main__":
    main()
