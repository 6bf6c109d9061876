"""The life of one trainer process, from the fork to the kill: wait for a job, prepare, hand over to the training loop.

Owns: what a process has once: the device's lock, the log, the rendezvous, the line to the agent.
Refuses to know: steps and generations (`trainer`), and how it was forked (`nursery`).
Does not guarantee: an orderly end. Its agent kills it, or it dies with its agent, or of an error that nobody foresaw;
what counts is written by then.
"""

import faulthandler
import fcntl
import os
import time
from multiprocessing.connection import Connection
from typing import NoReturn

import torch
import torch._dynamo  # the first optimizer would import it, for seconds: here the fork server does, before any fork

from regroup.core.jobs import Member
from regroup.core.messages.orders import Prepare
from regroup.core.messages.trainer_reports import WORKER, PrepareFailed
from regroup.wire.codec import decode_order
from regroup.worker.control import Control
from regroup.worker.log import log, log_to
from regroup.worker.nursery import Birth
from regroup.worker.prepare import CannotPrepare, prepare
from regroup.worker.pulse import Pulse
from regroup.worker.records import Records
from regroup.worker.rendezvous import Rendezvous
from regroup.worker.session import Session
from regroup.worker.trainer import Trainer
from regroup.worker.vital import depend, vital
from regroup.worker.words import TRACE, clipped, trace

REPEAT = 3.0  # seconds between two reports that it cannot prepare: one may be read by a coordinator that then dies


def main(pipe: Connection, birth: Birth) -> None:
    """The life of one trainer process, from the fork on. It ends when its agent kills it, or dies."""
    try:
        order = decode_order(pipe.recv_bytes())
    except EOFError:
        return  # a spare that was not needed
    assert isinstance(order, Prepare)
    alone = os.open(birth.lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(alone, fcntl.LOCK_EX)  # held until this process is gone: a worker never has two trainers
    faulthandler.enable()  # a segmentation fault leaves its stacks in the log
    torch.set_num_threads(birth.threads)
    rendezvous = Rendezvous(birth.host)
    member = Member(birth.worker, birth.incarnation)
    session = Session(job=order.job, member=member, address=rendezvous.address, pid=os.getpid())
    control = Control(pipe, session)
    depend(control.heard)
    with vital():
        _serve(control, order, birth)


def _serve(control: Control, order: Prepare, birth: Birth) -> NoReturn:
    control.start()
    try:
        log_to(birth.logs / order.job / f"{birth.worker}-{birth.incarnation}.log")
        records = Records(birth.records, order.job, birth.worker, birth.incarnation)
        pulse = Pulse(birth.pulse)
        pulse.start()
        trainer = Trainer(order.job, order.spec, birth, control, prepare(order.spec), records, pulse)
    except CannotPrepare as error:
        _give_up(control, order.job, birth, error)
    except OSError as error:  # the task's own are CannotPrepare by now
        message = f"cannot write its data ({error}): free some space there, or mend its permissions"
        _give_up(control, order.job, birth, CannotPrepare(WORKER, message, trace()))
    trainer.run()


def _give_up(control: Control, job: str, birth: Birth, error: CannotPrepare) -> NoReturn:
    """Say why, again and again: the agent ends this process when it was heard."""
    log(error.traceback or error)
    report = PrepareFailed(
        job=job,
        incarnation=birth.incarnation,
        field=clipped(error.field),
        message=clipped(error.message),
        traceback=clipped(error.traceback, TRACE),
    )
    while True:
        control.say(report)
        time.sleep(REPEAT)
