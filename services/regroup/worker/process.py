"""The life of one trainer process, from the fork to the kill: wait for a job, prepare, hand over to the training loop.

Owns: what a process has once: the device's lock, the log, the rendezvous, the line to the agent.
Refuses to know: steps and generations (`trainer`), and how it was forked (`nursery`).
Does not guarantee: an orderly end. Its agent kills it, or it dies with its agent; what counts is written by then.
"""

import faulthandler
import fcntl
import os
import sys
import threading
from multiprocessing.connection import Connection

import torch
import torch._dynamo  # the first optimizer would import it, for seconds: here the fork server does, before any fork

from regroup.core.jobs import Member
from regroup.core.messages import Prepare, PrepareFailed
from regroup.wire.codec import decode_order
from regroup.worker.control import Control
from regroup.worker.group import Rendezvous
from regroup.worker.nursery import Birth
from regroup.worker.prepare import CannotPrepare, prepare
from regroup.worker.records import Records
from regroup.worker.session import Session
from regroup.worker.trainer import Trainer


def main(pipe: Connection, birth: Birth) -> None:
    """The life of one trainer process, from the fork on. It ends when its agent kills it, or dies."""
    try:
        order = decode_order(pipe.recv_bytes())
    except EOFError:
        return  # a spare that was not needed
    assert isinstance(order, Prepare)
    alone = os.open(birth.lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(alone, fcntl.LOCK_EX)  # held until this process is gone: a worker never has two trainers
    _log_to(birth, order.job)
    faulthandler.enable()  # a segmentation fault leaves its stacks in the log
    torch.set_num_threads(birth.threads)
    rendezvous = Rendezvous(birth.host)
    member = Member(birth.worker, birth.incarnation)
    session = Session(job=order.job, member=member, address=rendezvous.address, pid=os.getpid())
    control = Control(pipe, session)
    control.start()
    try:
        bench = prepare(order.spec)
        records = Records(birth.records, order.job, birth.worker, birth.incarnation)
    except CannotPrepare as error:
        _give_up(control, order.job, birth, error)
    else:
        Trainer(order.job, order.spec, birth, control, bench, records).run()


def _give_up(control: Control, job: str, birth: Birth, error: CannotPrepare) -> None:
    print(error.traceback or error, file=sys.stderr, flush=True)
    report = PrepareFailed(
        job=job, incarnation=birth.incarnation, field=error.field, message=error.message, traceback=error.traceback
    )
    control.say(report)
    threading.Event().wait()  # the agent ends this process when it has heard


def _log_to(birth: Birth, job: str) -> None:
    """Whatever the task prints goes to a file of its own, also from C code."""
    folder = birth.logs / job
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / f"{birth.worker}-{birth.incarnation}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
