"""Where the paper execution stops, in one place. Reaching a limit is recorded as lost knowledge."""

MAX_CALL_DEPTH = 24
"""Calls inside calls. Deeper ones return an unknown value."""
MAX_RECURSION = 2
"""How often one function may be open at the same time: a helper that moves nested batches calls itself once."""
MAX_WRAPPED = 6
"""How often one function that a decorator made may be open, each time around another function."""
SHORT_FUNCTION = 40
"""Lines. A longer function that calls itself, as one that walks a tree, is not followed into itself."""
MAX_STATEMENTS = 25_000
"""Statements that one program may execute in one world. Real training scripts with many models in their project take
up to 20,000, and that is 2 to 6 seconds."""
MAX_BEFORE_TRAINING = 12_500
"""The same before gradients are asked for, where options choose among models and data sets: with the default of each
it comes there for less, and all of them together take the rest of the budget, or more."""
MAX_LIBRARY_STATEMENTS = 2_000
"""The same for a file that only defines things. Nearly all take under 1,000; more is spent in what it imports."""
MAX_LIBRARY_IMPORTS = 800
"""Of those, statements of modules that it imports. Nearly all take under 300; names of further modules stay unknown."""
MAX_EAGER_IMPORTS = 3_000
"""So many statements of modules that a program imports are executed as Python does. From then on, those that only
define things wait until a name of theirs is asked for: a zoo of models has twenty thousand. Most programs take under
1,000."""
MAX_WAITING = 60
"""Where no more of them wait, those that register something are looked for when a table lacks what is asked for."""
MAX_EVALUATIONS = 350_000
"""Expressions that it may evaluate, begun anew or not: each part of one counts, and more where it has several values.
The largest real programs take nearly all of it, in 5 seconds, and most a hundredth. Counted, so that the same
program ends at the same place on every machine; the seconds below end only what no count foresees."""
MAX_ENTRY_EVALUATIONS = 450_000
"""The same for all executions of an entry."""
A_CHOICE = 4
"""What one more value of an expression costs in these: a path of its own, and the join of all."""
MAX_SECONDS = 8.0
"""Processor time that one execution may take, whatever its statements: a hook must come back."""
MAX_ENTRY_SECONDS = 10.0
"""The same for all executions of an entry: in the second world it mostly takes as long as in the first one."""
MAX_ALL_SECONDS = 12.0
"""The same for all that is done about an entry: executing it, asking the rules, and executing it again for fixes."""
MIN_PART_SECONDS = 1.0
"""Of which each part has at least this, whatever those before it have taken."""
MAX_MEMORY = 352 * 1024**2
"""Bytes by which the process may grow while it looks at programs, one after the other."""
MIN_MEMORY = 32 * 1024**2
"""Of which each program may take this, whatever those before it have left behind."""
MAX_RULES_SECONDS = 2.0
"""Processor time that all rules together may take over one program."""
MAX_UNROLLED = 6
"""A loop over so many known items is followed item by item; over more, the body is followed twice."""
MAX_HANDED_ON = 256
"""Entries of a dictionary that a loop hands on one by one, in few statements each."""
MAX_ROUNDS = 4
"""Of a `while` loop whose test surely holds, as one that takes wrappers off a model, one by one."""
MAX_RESTARTS = 10
"""How many switches may be learnt, one restart each."""
MAX_UNDECIDED = 1_000
"""Statements after which a switch is learnt from a wrap, whatever the other sides of its choice would have done."""
MAX_EVENTS = 40_000
MAX_VALUES = 6
"""A name that may hold more values than this holds an unknown one."""
MAX_CHOICES = 24
"""The same for classes, functions, objects of the program and optimizers, one of which a setting picks."""
A_FEW = 3
"""So many functions that a name may mean are all followed, also where the program had to be cut with all of them."""
MAX_KINDS = 3
"""Of too many values, those of one kind become one that stands for them. Where they are of more kinds than this, the
name holds an unknown one."""
MAX_TOGETHER = 32
"""An expression that may have more values than this, before a name holds it, is unknown too."""
MAX_AT_END = 8
"""So many functions are called at the end of a program."""
MAX_DECORATED = 40
"""A decorator that gave so many functions back as they were is taken to do so with the others too."""
SHORT_CALL = 8
"""A call that took fewer statements costs too little to ask whether it pays."""
MAX_QUIET_STATEMENTS = 400
"""All calls of a function together: one that took more, and never did anything that rules ask about, is not followed
again with data alone."""
MIN_REMEMBERED_COST = 20
"""Statements that the calls of a function, or the constructions of a class, have taken before one is remembered: to
load what does it, and to note what a call reads, costs as much."""
MAX_REMEMBERED = 12
"""So many calls of a function, or constructions of a class, are remembered to be done again: with other arguments, or
where they would do something else."""
MAX_IN_VAIN = 4
"""So many are, where none of them was done again."""
LONG_DRAW = 100
"""A generator that took more statements than this for one item is not followed a third time for another one; nor is
the body of a loop over a generator, for what comes from the same place in it."""
