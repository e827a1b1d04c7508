"""What a kind of error of Python says by itself, for texts that no record explains: errors of the program as such."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText

_python = partial(ErrorText, library="python")

PROGRAM_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"CheckpointException: CheckpointException ranks",
        "A distributed checkpoint could not be read or written by some ranks.",
        "The lines below it say which rank met what.",
    ),
    ErrorText(
        r"Caught \w+ in (?:DataLoader worker process|replica) \d+",
        "The error was raised in a worker of a loader, or in a replica of DataParallel, and its own traceback, which "
        "follows, is not whole.",
        "Read on below this line; with `num_workers=0` the error of a worker is raised in the rank itself.",
    ),
    _python(
        r"[Nn]o such file|does not exist|doesn't exist|do not exist|not exists?\b|[Cc]annot find|[Cc]ould not find|"
        r"[Nn]ot found\b|NotFoundError",
        "Something that the program needs is not there: the path or name is wrong, or this node does not have it.",
        "Look for it on the node of this rank.",
    ),
    _python(
        r"got an unexpected keyword argument|takes? (?:from \d+ to )?\d+ positional arguments? but|"
        r"missing \d+ required (?:positional|keyword-only) argument|got multiple values for (?:keyword )?argument",
        "A function was called with other arguments than it takes: often the program is written for another version "
        "of the library.",
        "Compare the call with the function in the installed version.",
    ),
    _python(
        r"(?:not enough|too many) values to unpack|cannot unpack non-iterable",
        "What stands to the right of the assignment has another number of values than there are names: often a "
        "function returns more or fewer in this version, or with these settings.",
        "Print it at this line.",
    ),
    _python(
        r"empty sequence|empty iterable|\bmust be non-empty|expected a non-empty|expects a non-empty|"
        r"at least one array to|zero-size array|numel\(\) == 0|[Cc]annot choose from an empty|"
        r"pop from an? empty",
        "Something that must hold at least one value is empty: often the data of this rank, or what a filter leaves.",
        "Print its length at this line, on this rank.",
    ),
    ErrorText(
        r"view size is not compatible with input tensor's size and stride",
        "A tensor was to be seen in another shape without a copy, and does not lie in memory in that order: after a "
        "transpose, a slice, or in `channels_last`.",
        "Use `.reshape(...)` in the place of `.view(...)`.",
    ),
    _python(
        r"invalid literal for int\(\)|could not convert string to float|malformed node or string",
        "A text was to be read as a number or another value, and is none: the name of a file, a setting or a cell of "
        "a table is written in another way than the code expects.",
        "Print the text at this line.",
    ),
    _python(
        r"\b(?:infs? or NaNs?|NaN, infinity|contains NaN|inf`, `nan)|found invalid values|failed to converge|"
        r"[Ss]ingular matrix|is (?:not positive.definite|singular)",
        "Numbers have become infinite, or are no numbers any more (NaN), before this line.",
        "Look where the loss or the gradients first are; a lower learning rate, clipping and bfloat16 in the place of "
        "float16 are usual cures.",
    ),
    _python(
        r"(?i:shapes?\b.*\b(?:mismatch|match|broadcast)|broadcast.*\bshape|number of dimensions|"
        r"\d-dimensional input|\dD target tensor|inhomogeneous shape|setting an array element with a sequence|"
        r"size mismatch|same (?:size|length|shape))",
        "Arrays or tensors have other shapes than this call takes: a batch that is smaller than the others, or data "
        "of another form.",
        "Print their shapes at this line, on this rank.",
    ),
    _python(
        r"(?:string|list|tuple|byte) indices must be integers|object is not subscriptable|"
        r"unsupported operand type|not supported between instances|object is not (?:callable|iterable)",
        "A value is of another type than the code at this line expects.",
        "Print it and its type at this line, and look where it comes from.",
    ),
    _python(
        r"'NoneType' object|NoneType has no|got NoneType\b",
        "Something is None where an object was expected: a function returned nothing, or nothing was found or loaded.",
        "Look where this value comes from, and whether it is so on this rank only.",
    ),
    _python(
        r"UnboundLocalError|NameError: ",
        "A name has no value here: what sets it was not run on this rank, or is missing.",
        "Look for a test, of the rank for example, around the line that sets it.",
        likely=("GPU470",),
    ),
    _python(
        r"module '[\w.]+' has no attribute",
        "A module does not have this name: often it is of another version than the program is written for, or a file "
        "of the same name is found before it.",
        "Print its `__file__` and its version.",
    ),
    _python(
        r"object has no attribute",
        "The object does not have this attribute: it is of another class than expected, or of another version of its "
        "library.",
        "Print its type at this line; wrappers (`DDP`, `compile`) hide the attributes of the model inside.",
    ),
    _python(
        r"^KeyError: '[A-Z][A-Z\d]*(?:_[A-Z\d]+)+'$",
        "Names in capitals are mostly of environment variables: this one is not set in the process.",
        "Set it where the launcher is started, with `export`: a variable of the shell alone reaches no other process.",
    ),
    _python(
        r"(?:^|\.)KeyError\b",
        "A dictionary does not have this key: a column, a setting or the name of a parameter differs from what the "
        "code expects.",
        "Print its keys at this line.",
    ),
    _python(
        r"SyntaxError|IndentationError|TabError",
        "The file is not valid for this version of Python.",
        "`python -m py_compile FILE`; start with the version that the program needs.",
    ),
    _python(
        r"RecursionError|maximum recursion depth exceeded",
        "A function calls itself forever; so does an attribute that `__getattr__` looks for in itself, as when a "
        "wrapped model is unpickled.",
        "The lines that repeat in the traceback are the circle.",
    ),
    _python(
        r"(?:^|\.)(?:ImportError)\b",
        "An import failed: a package is missing, or has another version than is needed.",
        "Install what the text names in the environment of the job, on each node.",
    ),
    _python(
        r"(?:^|\.)NotImplementedError\b",
        "The program asked for something that the library, or a class of the program, does not do.",
    ),
    _python(
        r"MisconfigurationException|ConfigError|ConfigurationError|ValidationError|ArgumentError|UsageError",
        "A library refuses the settings it was given; the text says which.",
    ),
    _python(
        r"AssertionError",
        "The program, or a library, checks a condition at this line, and it does not hold.",
        "Print what the condition compares, on this rank.",
    ),
    _python(
        r"(?:^|\.)IndexError\b",
        "An index is outside of its range.",
        "Print the index and the length at this line, on this rank.",
    ),
    _python(
        r"ZeroDivisionError",
        "Something was divided by zero: often the length of a loader or a shard that has nothing in it.",
        "Print what is counted at this line, on this rank.",
    ),
    _python(
        r"(?:^|\.)(?:TimeoutError|timeout)\b",
        "Something that the program waited for did not come in time.",
    ),
    ErrorText(
        r"(?:^|\.)(?:OSError|IOError): \[(?:Errno|WinError) \d+\]",
        "The operating system refused what was asked of it; the words after the number say why.",
        "Try the same on this node, with the path or the address that the text names.",
        library="kernel",
    ),
    _python(
        r"(?:^|\.)StopIteration\b",
        "An iterator was asked for one more value than it has.",
        "Compare how many batches this rank has with how many the loop asks for.",
    ),
    _python(
        r"(?:^|\.)TypeError\b",
        "A value is of another type than the code at this line takes.",
        "Print it and its type at this line, and look where it comes from.",
    ),
    _python(
        r"(?:^|\.)ValueError\b",
        "A value, or a setting, is not one of those that the code at this line takes; the text says which.",
        "Print it at this line, on this rank.",
    ),
    _python(
        r"(?:^|\.)(?:RuntimeError|Exception)\b",
        "This kind of error says nothing by itself: its text is all that tells what was wrong.",
    ),
)
