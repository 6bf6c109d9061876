"""`regroup-agent`, before anything is imported that the base install lacks."""

import sys

from regroup.wire.entry import begin


def main() -> None:
    flags = {
        "check": "ask the agent of this name, here, whether it works and a coordinator answers it; 0 if so",
        "alive": "ask it whether it works at all; 0 if so",
    }
    asked = begin("regroup-agent", "One worker of a cluster, on this machine.", "worker", flags=flags)
    if asked:
        from regroup.worker import health

        sys.exit(health.check(unheard="check" in asked))
    from regroup.worker import serving  # not before it is known that it can be

    serving.main()


if __name__ == "__main__":
    main()
