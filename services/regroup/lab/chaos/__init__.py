"""Chaos: real faults on real processes of this machine, each at a chosen moment, and a strict judge.

    cells     which faults there are, in which phases of a job; a frozen value each      (pure)
    held      the task: it stops in a phase until it hears a word, and does what that says
    hold      the other end of that: arm, wait until somebody is held, say the word
    faults    what is done to the processes, the files and the network
    bed       a cluster that many cells share, and what a job that nothing happens to ends with
    trial     one cell from submission to verdict; read it top to bottom
    verdict   when a cell passes                                                         (pure)
    report    the table and the figures as JSON; `page`: the same as HTML                (pure)
    command   `regroup chaos`

Refuses to know: how the cluster recovers. It asks REST, and reads what the workers wrote down.
Does not guarantee: anything about instants that are not held: the simulator and the searches are for those.
"""
