"""What `with`, `try` and loops do with the paths that leave them."""

import contextlib
import threading

log = []


class Logs:
    def __enter__(self):
        log.append("in")
        return self

    def __exit__(self, *error):
        log.append("out")


def returns_inside():
    with Logs():
        return 1


claim(returns_inside() == 1)
claim(log == ["in", "out"])

managed = []


@contextlib.contextmanager
def manager():
    managed.append("in")
    yield 5
    managed.append("out")


def returns_from_manager():
    with manager() as value:
        return value


claim(returns_from_manager() == 5)
claim(managed == ["in", "out"])

closed = []


@contextlib.contextmanager
def closes():
    closed.append("in")
    try:
        yield 5
    finally:
        closed.append("out")


def breaks_out():
    for turn in range(3):
        with closes():
            if turn == 1:
                break
    return turn


breaks_out()
claim("out" in closed)


def raises_inside():
    with closes():
        raise ValueError


try:
    raises_inside()
except ValueError:
    closed.append("caught")
claim(closed[-1] == "caught")
claim(closed[-2] == "out")


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.kind = kind
        return True


swallows = Swallows()
with swallows:
    raise KeyError
claim(swallows.kind is not None)

with contextlib.suppress(KeyError):
    before = 1
    raise KeyError
claim(before == 1)


class Decorates(contextlib.ContextDecorator):
    def __enter__(self):
        self.state = 1
        return self

    def __exit__(self, *error):
        self.state = 2
        return False


decorates = Decorates()


@decorates
def state_inside():
    return decorates.state


claim(state_inside() == 1)
claim(decorates.state == 2)

count = 0
try:
    count = 1
    raise ValueError
except ValueError:
    seen = count
claim(seen == 1)


def counts_and_fails():
    global count
    count = 5
    raise RuntimeError("a")


try:
    counts_and_fails()
except RuntimeError as error:
    seen = count
finally:
    count = 6
claim(seen == 5)
claim(count == 6)

try:
    try:
        raise KeyError
    except KeyError:
        inner = 1
    finally:
        last = 2
        raise ValueError
except ValueError:
    pass
claim(inner == 1 and last == 2)

handled = False
try:
    try:
        raise KeyError
    finally:
        try:
            raise ValueError
        except ValueError:
            handled = True
except KeyError:
    pass
claim(handled)

while 0:
    way = 1
else:
    way = 2
claim(way == 2)
for each in []:
    way = 1
else:
    way = 3
claim(way == 3)
for each in [1, 2]:
    if each == 2:
        break
else:
    way = 4
claim(way == 3)
for turn in range(3):
    if turn == 1:
        continue
    last = turn
else:
    done = True
claim(last == 2 and done and turn == 2)
turns = 0
while True:
    turns += 1
    if turns == 3:
        break
claim(turns == 3)

ran = []


class Runs(threading.Thread):
    def __init__(self, to):
        super().__init__(daemon=True)
        self.to = to
        self.start()

    def run(self):
        self.to.append(2)


Runs(ran).join()
claim(ran == [2])
thread = threading.Thread(target=ran.append, args=(3,))
thread.start()
thread.join()
claim(3 in ran)

words, found, at = ["--config", "small", "--fast", "name=big"], {}, 0
while at < len(words):
    if words[at] == "--config":
        found["config"] = words[at + 1]
        at += 1
    elif words[at].startswith("name="):
        found["name"] = words[at].split("=", 1)[1]
    else:
        found["rest"] = words[at]
    at += 1
claim(found == {"config": "small", "rest": "--fast", "name": "big"} and at == 4)
left = 3
while left > 0:
    left -= 1
    if left == 1:
        break
else:
    claim(left == 5)
claim(left == 1)
