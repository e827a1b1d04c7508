"""Lint: abstract interpretation of training programs. The door of the engine, and its words.

A file becomes findings in one direction; each stage is a room::

    request ──> discovery ──> source (notebooks) ──> interp ──> events ──> program ──> rules ──> results ──> report
                                                     │    ▲
                      library, analyses ── interface ┘    └── domain, flow

``pipeline.py`` is the outline of all of it. In ``entries``, ``schedule.py`` says what is executed when, ``analyze.py``
is the outline of one entry, and ``ask_rules.py`` asks the rules.

Program
    One execution on paper of an entry file in one launch world, as rules see it (`program`).
Launch world
    How the program is started: by torchrun, by its own `mp.spawn`, or as one process (`interp/launch_worlds.py`).
Abstract value
    What a name may hold, as far as rules ask: a module, a loader, a rank, a constant (`domain`, one file a kind).
Term
    What stands for an unknown value, such as the length of a loader: two with the same term are the same value
    (`domain/symbols.py`).
Value set
    The few values that a name may hold, each guarded by the path condition under which it does (`flow/valueset.py`).
Path condition
    A conjunction of tests with their answers that had to hold to get here (`flow/condition.py`).
Atom, literal
    One test that a program makes, and that test with its answer.
Divergence
    Whether ranks may disagree about an atom or a value: not at all, by their rank, by their data, or through code that
    was not read. "Only rank 0 gets here" is a question about it.
Store
    Abstract memory in layers: a branch writes a delta of its own, and a join merges the deltas (`flow/store.py`).
State, own attribute
    What the engine knows of an object, in cells that `domain/abstract_state.py` lists with their joins, and what the
    program has written to it: two spaces of keys in the store.
Allocation site, occurrence
    Where an object was made, and how often that place was reached before: the two name the object.
Event
    Something that the program does, with its place, calls, loops and path condition (`events`).
Library model
    What a call into a library means (`library`); an analysis is what several models and the interpreter ask about one
    question, such as the scale of a loss (`analyses`).
Speculative run
    An execution whose events are kept back until somebody replays them: a `forward`, the items of a data set.
Position
    Where an execution is, in groups of fields: what a branch forks, what is set apart for a module, what a speculative
    run takes back (`interp/position.py`).
Hook
    What the evaluation raises where a step may mean more than Python says (`interface/hooks.py`).
Evaluator
    The state of an execution with the questions that statements, expressions and calls ask each other: each part of the
    evaluation knows only it (`interp/evaluator.py`), and the interpreter puts the parts together.
Habit
    What the calls of a function have done so far, where following it once more would tell nothing new
    (`interp/habits.py`).
Widening
    Fewer, less definite values where a name could hold too many (`interp/widening.py`).
Refinement
    An assumption that the interpreter makes when a program asks for it, such as that it is distributed; it begins
    again with the assumption made.
Imprecision
    Where knowledge ends: a limit, or code that was not read. It is recorded, and the report says so.
"""
