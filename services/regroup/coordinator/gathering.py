"""Gathering the workers' own records: each file once, piece by piece, from whichever agent of its machine answers.

Owns: which agents hold a file, and how far it was read; so another agent can go on where one was lost.
Refuses to know: what the records say, and which agents are there (its caller says).
Does not guarantee: the records of machines that are gone. Nothing is read ahead: one piece at a time is in memory,
and the next is asked for when that one was taken.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count

from regroup.core.messages.agent_reports import RecordsAnswer, RecordsFailed, RecordsListed, RecordsRead
from regroup.core.messages.orders import ListRecords, ReadRecords, RecordsOrder

log = logging.getLogger("regroup.coordinator")

PATIENCE = 15.0  # seconds to wait for an agent's answer


class RecordsBroke(Exception):
    """The records of a job cannot be had to their end; what was given until then is not all."""


class Gathering:
    def __init__(self, send: Callable[[str, RecordsOrder], bool], patience: float = PATIENCE) -> None:
        """`send` hands an order to a worker's agent; False: it is not connected."""
        self._send, self._patience = send, patience
        self._awaited: dict[tuple[str, str], asyncio.Future[RecordsAnswer | None]] = {}  # by worker and request
        self._numbers = count(1)

    def answered(self, worker: str, answer: RecordsAnswer) -> None:
        """Take in what an agent said. What nobody waits for any more is let go."""
        awaited = self._awaited.get((worker, answer.request))
        if awaited is not None and not awaited.done():
            awaited.set_result(answer)

    def closed(self, worker: str) -> None:
        """The connection to an agent ended: it will not answer what it was asked."""
        for (asked, _), awaited in self._awaited.items():
            if asked == worker and not awaited.done():
                awaited.set_result(None)

    async def records(self, job: str, workers: Sequence[str]) -> AsyncIterator[tuple[str, str]]:
        """(file, text) pieces of a job's records on the machines of these workers. Raises RecordsBroke."""
        holders: dict[str, list[str]] = {}
        lists = await asyncio.gather(*(self._ask(worker, ListRecords(self._number(), job)) for worker in workers))
        for worker, answer in zip(workers, lists, strict=True):
            match answer:
                case RecordsListed(files=files):
                    for file in files:
                        holders.setdefault(file, []).append(worker)
                case None:
                    log.warning("%s went away before it listed its records of job %s", worker, job)
                case _:
                    raise RecordsBroke(f"the records of job {job} on the machine of {worker}: {_why(answer)}")
        for file in sorted(holders):
            async for text in self._pieces(job, file, holders[file]):
                yield file, text

    async def _pieces(self, job: str, file: str, holders: Sequence[str]) -> AsyncIterator[str]:
        offset, reasons = 0, []
        for holder in holders:
            more = True
            while more:
                answer = await self._ask(holder, ReadRecords(self._number(), job, file, offset))
                if not isinstance(answer, RecordsRead):
                    reasons.append(f"{holder}: {_why(answer)}")
                    break
                offset, more = answer.end, answer.more
                if answer.text:
                    yield answer.text
            else:
                return
        raise RecordsBroke(f"the records of job {job} break off at byte {offset} of {file}: {'; '.join(reasons)}")

    async def _ask(self, worker: str, order: RecordsOrder) -> RecordsAnswer | None:
        """The answer of an agent; None: it is not connected any more."""
        place = worker, order.request
        awaited = self._awaited[place] = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(awaited, self._patience) if self._send(worker, order) else None
        except TimeoutError:
            return RecordsFailed(request=order.request, error=f"no answer in {self._patience:g} s")
        finally:
            del self._awaited[place]

    def _number(self) -> str:
        return f"r{next(self._numbers)}"


def _why(answer: RecordsAnswer | None) -> str:
    match answer:
        case None:
            return "it went away"
        case RecordsFailed(error=error):
            return error
        case _:
            return f"it answered {type(answer).__name__}"
