"""The machine's wing: does this machine train on all its GPUs, correctly and at full speed?

Vocabulary, kept everywhere in here: the *parent* is the process that the user has started, and it never initialises
CUDA; a *rank* is one worker process. A *stage* is a piece of work that all ranks enter and leave together, within a
limit. Ranks hand over *facts* (plain data); a *check* judges the facts of all ranks, in the parent.
"""
