"""One question to NVML at a time: whatever goes wrong with it becomes the reason of an absent field."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from gpudoctor.probe.inventory.field import Absence, Field, absent, known

_REASONS: dict[int, tuple[Absence, str]] = {
    3: (Absence.NOT_OFFERED, "this GPU or driver does not offer it"),
    4: (Absence.FORBIDDEN, "the driver refuses this user (insufficient permissions)"),
    9: (Absence.NO_DRIVER, "the NVIDIA kernel module is not loaded"),
    12: (
        Absence.NO_DRIVER,
        "libnvidia-ml.so.1 is not there: no NVIDIA driver, or a container that was started without it",
    ),
    13: (Absence.OLD_DRIVER, "the driver is too old to know this question"),
    15: (Absence.LOST, "the GPU is lost: it has fallen off the bus"),
    16: (Absence.LOST, "the GPU needs a reset before it answers"),
    18: (
        Absence.MISMATCH,
        "kernel module and user library of the driver have different versions (it was updated without a reboot)",
    ),
    25: (Absence.OLD_DRIVER, "driver and nvidia-ml-py speak different versions of this question"),
    26: (Absence.OLD_DRIVER, "this question was removed from the driver"),
    999: (Absence.FAILED, "the driver says: unknown error"),
}


_INVALID_ARGUMENT = 2


def load() -> Any:
    """pynvml, of the package nvidia-ml-py. Raises ImportError where that is not installed."""
    with warnings.catch_warnings():
        # The package that is called pynvml itself warns that it is the wrong one, and works.
        warnings.simplefilter("ignore")
        import pynvml
    return pynvml


class Nvml:
    """pynvml, with a `Field` for each answer."""

    def __init__(self, pynvml: Any) -> None:
        self.pynvml = pynvml

    def ask(self, name: str, *arguments: object) -> Field[Any]:
        """What the function `nvml<name>` answers."""
        function = getattr(self.pynvml, f"nvml{name}", None)
        if function is None:
            return absent(f"this nvidia-ml-py has no nvml{name}", Absence.NOT_INSTALLED)
        return self.call(lambda: function(*arguments))

    def call(self, question: Callable[[], Any]) -> Field[Any]:
        """The answer, or the reason in words."""
        try:
            answer = question()
            # nvidia-ml-py before 11.5 hands out names as bytes.
            return known(answer.decode(errors="replace") if isinstance(answer, bytes) else answer)
        except self.pynvml.NVMLError as error:
            return self._reason(error)
        except (AttributeError, TypeError, ValueError) as error:
            # An answer of the driver that the binding does not understand, such as a name that is no UTF-8.
            return absent(f"nvidia-ml-py cannot read the answer ({error})", Absence.FAILED)

    def number(self, handle: object, field_id: int, scope: int = 0) -> Field[int]:
        """A value of NVML's numbered fields, which has an error code of its own."""
        answer = self.ask("DeviceGetFieldValues", handle, [(field_id, scope)])
        if answer.value is None:
            return answer
        value = answer.value[0]
        # A driver does not know the numbers of fields that came after it.
        if value.nvmlReturn == _INVALID_ARGUMENT:
            return absent("the driver is too old to know this field", Absence.OLD_DRIVER)
        if value.nvmlReturn != 0:
            return self._reason(self.pynvml.NVMLError(value.nvmlReturn))
        kinds = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
        if value.valueType >= len(kinds):
            return absent("nvidia-ml-py cannot read the answer", Absence.FAILED)
        return known(int(getattr(value.value, kinds[value.valueType])))

    def _reason(self, error: Any) -> Field[Any]:
        kind, why = _REASONS.get(error.value, (Absence.FAILED, f"the driver says: {str(error).rstrip('.').lower()}"))
        return absent(why, kind)


def first(*answers: Callable[[], Field[Any]]) -> Field[Any]:
    """The first answer that is one; else what the last way said, or the first where the GPU itself is gone.

    Drivers before a function's time lack it, and later ones may drop it: both ways must be tried.
    """
    last: Field[Any] = absent("nobody can be asked")
    for ask in answers:
        last = ask()
        if last.known or last.absence in (Absence.LOST, Absence.FORBIDDEN):
            return last
    return last
