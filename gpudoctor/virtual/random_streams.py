"""Random numbers: a virtual GPU draws from the host's stream, as the same program on the CPU, until it is seeded apart.

So a run gives the numbers of that program; two streams for one seed would not. A program that gives its GPU another
seed or another state than the host's has asked for two.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from gpudoctor.virtual.device_errors import state_on_gpu
from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.residence import UNKNOWN, place_of

_OnHost: Any = torch.Generator


class _GeneratorType(type(_OnHost)):  # type: ignore[misc]
    """All generators are instances, also those that torch has made itself."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _OnHost)


class VirtualGenerator(_OnHost, metaclass=_GeneratorType):  # type: ignore[misc]
    """A generator of the host that says that it is one of a virtual GPU, where it was made for one."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """As `torch.Generator(device)`."""
        where = torch.device(device)
        if where.type != "cuda":
            return _OnHost(device)
        made = _OnHost.__new__(cls)
        made.where = where
        return made

    where = torch.device("cpu")

    @property
    def device(self) -> torch.device:
        """The device that it was made for."""
        return self.where

    def set_state(self, new_state: torch.Tensor) -> Any:
        """Go on from a state, which is a tensor of the host."""
        _check_state(new_state)
        return super().set_state(new_state)

    def clone_state(self) -> Any:
        """Another one of the same device that goes on from here."""
        made = VirtualGenerator(self.where)
        made.set_state(self.get_state())
        return made


class DeviceRandom:
    """The streams of the GPUs, and the functions of `torch.cuda.random`."""

    def __init__(self, gpus: VirtualGpus) -> None:
        self._gpus = gpus
        self._apart: dict[int, Any] = {}
        """The generators of the GPUs that do not draw from the host's stream."""

    def install(self) -> None:
        """Have the host's functions mend what they set alike, and offer generators of GPUs."""
        for name in ("manual_seed", "seed"):
            _after(name, lambda _: self._apart.clear())
        _after("set_rng_state", self._rejoin, first=_check_state)
        torch.cuda.default_generators = tuple(_generator_of(self, index) for index in range(self._gpus.machine))

    def functions(self) -> dict[str, Callable[..., Any]]:
        """By their names."""
        return {
            "get_rng_state": lambda device="cuda": self.state(self._gpus.index_of(device)),
            "get_rng_state_all": lambda: [self.state(index) for index in range(self._gpus.count)],
            "set_rng_state": lambda new_state, device="cuda": self.put_state(new_state, self._gpus.index_of(device)),
            "set_rng_state_all": self._put_all,
            "manual_seed": lambda seed: self.seeded(seed, self._gpus.current),
            "manual_seed_all": self._seed_all,
            "seed": lambda: None,
            "seed_all": lambda: None,
            "initial_seed": lambda: self.initial_seed(self._gpus.current),
        }

    @contextlib.contextmanager
    def drawing(self, index: int) -> Iterator[None]:
        """Have the CPU draw from the stream of a GPU."""
        own = self._apart.get(index)
        if own is None:
            yield
            return
        host = torch.default_generator.get_state()
        torch.default_generator.set_state(own.get_state())
        try:
            yield
        finally:
            own.set_state(torch.default_generator.get_state())
            torch.default_generator.set_state(host)

    def is_apart(self, index: int) -> bool:
        """Whether a GPU has a stream of its own."""
        return index in self._apart

    def state(self, index: int) -> torch.Tensor:
        """That of a GPU's stream."""
        found: torch.Tensor = self._apart.get(index, torch.default_generator).get_state()
        return found

    def put_state(self, state: torch.Tensor, index: int) -> None:
        """Go on from a state, which may be the host's."""
        _check_state(state)
        own = _OnHost()
        own.set_state(state.cpu())
        self._separate(own, index)

    def seeded(self, seed: int, index: int) -> None:
        """Begin the stream of a GPU anew."""
        self._separate(_OnHost().manual_seed(int(seed)), index)

    def initial_seed(self, index: int) -> int:
        """With which the stream of a GPU began."""
        return int(self._apart.get(index, torch.default_generator).initial_seed())

    def _separate(self, own: Any, index: int) -> None:
        self._apart[index] = own
        self._rejoin(torch.default_generator.get_state())

    def _rejoin(self, host: torch.Tensor) -> None:
        """Streams that stand where the host's does are one with it."""
        for index, own in list(self._apart.items()):
            if torch.equal(own.get_state(), host):
                del self._apart[index]

    def _seed_all(self, seed: int) -> None:
        for index in range(self._gpus.count):
            self.seeded(seed, index)

    def _put_all(self, new_states: Sequence[torch.Tensor]) -> None:
        for index, state in enumerate(new_states):
            self.put_state(state, index)


def _generator_of(random: DeviceRandom, index: int) -> VirtualGenerator:
    """The generator that PyTorch draws from on a GPU."""

    class DefaultGenerator(VirtualGenerator):
        """Its state is that of the GPU's stream."""

        def get_state(self) -> torch.Tensor:
            return random.state(index)

        def set_state(self, new_state: torch.Tensor) -> Any:
            random.put_state(new_state, index)
            return self

        def manual_seed(self, seed: int) -> Any:
            random.seeded(seed, index)
            return self

        def initial_seed(self) -> int:
            return random.initial_seed(index)

    made: VirtualGenerator = DefaultGenerator(torch.device("cuda", index))
    return made


def _check_state(state: Any) -> None:
    """A state stays on the host, also that of a GPU: a file that was loaded onto a GPU has moved it."""
    if isinstance(state, torch.Tensor) and (place := place_of(state)) is not UNKNOWN and place >= 0:
        raise state_on_gpu()


def _after(name: str, then: Callable[[Any], None], first: Callable[[Any], None] = lambda _: None) -> None:
    """Have something done after a function of the host's random numbers, and before it."""
    call = getattr(torch.random, name)

    @functools.wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else next(iter(kwargs.values()), None)
        first(given)
        found = call(*args, **kwargs)
        then(given)
        return found

    for module in (torch.random, torch):
        setattr(module, name, called)
