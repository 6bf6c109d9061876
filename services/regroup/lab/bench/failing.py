"""What ends a benchmark before its time.

Owns: the error, and the question whether a job still trains. Refuses to know: what is measured.
"""

from regroup.client.sdk import Client

ASK_EVERY = 5.0  # seconds without news after which it is asked; while steps are committed nobody asks


class BenchFailed(Exception):
    """The cluster did not do what is to be measured; the message says what."""


def expect_alive(client: Client, job: str) -> None:
    """Raises BenchFailed if the job has ended, with its reason."""
    view = client.job(job)
    if view.ended:
        raise BenchFailed(f"job {job} is {view.phase}: {view.reason}")
