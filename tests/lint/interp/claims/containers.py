"""What lists, sets and dictionaries hold after what was done to them."""

import collections
import copy
import itertools

table = {"a": 1}
other = table.copy()
other["a"] = 2
claim(table["a"] == 1)
claim(other is not table)
claim(other["a"] == 2)
table.clear()
claim(table == {})
claim(not table)
claim(len(table) == 0)
same = table
same["k"] = 1
claim(table == {"k": 1})

items = [1, 2]
more = items.copy()
more.append(3)
claim(len(items) == 2)
more.clear()
claim(len(more) == 0)
names = {1, 2}
names.clear()
claim(not names)

left = [1, 2, 3]
del left[0]
claim(left == [2, 3])
left[0:1] = [7, 8]
claim(left == [7, 8, 3])
claim(left.pop(0) == 7 and left == [8, 3])
left.remove(3)
claim(left == [8])
left.insert(0, 4)
claim(left == [4, 8] and left[::-1] == [8, 4])
left.reverse()
claim(left == [8, 4])
left.sort()
claim(left == [4, 8])
claim(sorted([3, 1, 2], reverse=True) == [3, 2, 1] and list(reversed([1, 2])) == [2, 1])

entries = {"a": 1, "b": 2}
del entries["a"]
claim(entries == {"b": 2} and "a" not in entries)
claim(entries.get("a", 3) == 3 and entries.get("b") == 2)
entries.update(c=3)
entries.setdefault("c", 4)
entries.setdefault("d", 5)
claim(entries["c"] == 3 and entries["d"] == 5)
claim(entries.pop("c") == 3 and "c" not in entries)
nested = {"a": {"b": 1}}
nested["a"]["b"] += 1
claim(nested["a"]["b"] == 2)

first = second = [1]
first += [2]
claim(second == [1, 2])
first = first + [3]
claim(second == [1, 2])
repeated = [[0]] * 2
repeated[0].append(1)
claim(repeated[1] == [0, 1])


class Thing:
    pass


thing = Thing()
thing.held = [1]
shallow = copy.copy(thing)
shallow.held.append(2)
claim(len(thing.held) == 2)
claim(shallow.held is thing.held)
deep = copy.deepcopy(thing)
deep.held.append(2)
claim(len(thing.held) == 2)
claim(deep is not thing)
claim(deep.held is not thing.held)

ordered = collections.OrderedDict(a=1)
changed = ordered.copy()
changed["b"] = 2
claim("b" not in ordered)
grouped = collections.defaultdict(list)
grouped["a"].append(1)
claim(grouped == {"a": [1]})
claim(list(collections.deque([1, 2, 3], maxlen=2)) == [2, 3])
counted = collections.Counter("aab")
claim(counted["a"] == 2 and counted["z"] == 0)
pair = collections.namedtuple("pair", "a b")
claim(pair(1, 2).b == 2 and pair(a=1, b=3)[1] == 3)
layers = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
claim(layers["a"] == 1 and layers["b"] == 3)

once = iter((1, 2))
claim(next(once) == 1 and next(once) == 2 and next(once, 42) == 42)
claim(list(once) == [])
claim(list(itertools.chain([1], [2])) == [1, 2] and list(itertools.islice([1, 2, 3], 2)) == [1, 2])
claim([*range(2), 5] == [0, 1, 5] and list(range(3)) == [0, 1, 2] and 3 in range(5))
claim({key: value for key, value in zip("ab", [1, 2])} == {"a": 1, "b": 2})
claim(dict([("a", 1)]) == {"a": 1} and {**{"a": 1}, "b": 2} == {"a": 1, "b": 2} and ({"a": 1} | {"b": 2})["b"] == 2)
claim(list(map(str, [1, 2])) == ["1", "2"] and list(filter(None, [0, 1])) == [1])
claim(any(each == 2 for each in [1, 2]) and not all(each == 2 for each in [1, 2]))
head, *tail = [1, 2, 3]
claim(head == 1 and tail == [2, 3])
claim(list(enumerate("ab", 1)) == [(1, "a"), (2, "b")])


class Ends:
    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration


for each in Ends():
    pass
claim(next(Ends(), 42) == 42)
claim(list(Ends()) == [])


class Indexed:
    def __init__(self, length):
        self.length = length

    def __getitem__(self, index):
        if index >= self.length:
            raise IndexError
        return index


claim(list(Indexed(0)) == [])
total = 0
for each in Indexed(3):
    total += each
claim(total == 3)


def plain(given):
    if isinstance(given, dict):
        made = dict()
        for key, held in given.items():
            made[key] = plain(held)
        return made
    elif isinstance(given, list):
        return [plain(held) for held in given]
    else:
        return given


deep = plain({"a": 1, "b": {"c": {"d": {"e": [1, {"f": 2}]}}}, "g": 1, "h": 2, "i": 3, "j": 4, "k": {"l": 5}, "m": [6]})
claim(deep["b"]["c"]["d"]["e"][1]["f"] == 2 and deep["k"]["l"] == 5 and deep["m"][0] == 6)

small, big = frozenset(["a", "b"]), {"b", "c"}
claim("a" in small | big and "c" in small | big and "d" not in small | big)
claim("b" in small & big and "a" not in small & big)
claim("a" in small - big and "b" not in small - big)
claim("c" in small ^ big and "b" not in small ^ big)
claim("c" in small.union(big, {"e"}) and len(small.difference(big)) == 1)
