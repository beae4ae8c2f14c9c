"""Models that threads call: healthy ones, and twins with a fault that only the practice shows.

``torch.compiler.is_compiling()`` guards a fault, as a fault of the compiler would be. Races need no
luck: threads meet between writing and reading.
"""

import signal
import threading

import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate import Example, model

#: How many threads the practice starts, and how often each of them calls in the first step.
THREADS, CALLS = 4, 3
#: Seconds that a thread waits for the others, at most.
LONG = 60.0

_meeting = threading.Barrier(THREADS)
_own = threading.local()
_shared = {}


def meet():
    """Wait for the other threads, in the calls of the first step."""
    _own.calls = getattr(_own, "calls", 0) + 1
    if threading.current_thread() is not threading.main_thread() and _own.calls <= CALLS:
        _meeting.wait(LONG)


@torch.library.custom_op("practised_serving::through_shared_buffer", mutates_args=())
def through_shared_buffer(x: torch.Tensor) -> torch.Tensor:
    _shared["buffer"] = x.clone()
    meet()
    return _shared["buffer"].clone()


@torch.library.custom_op("practised_serving::through_own_buffer", mutates_args=())
def through_own_buffer(x: torch.Tensor) -> torch.Tensor:
    own = x.clone()
    meet()
    return own.clone()


#: One lock that the main thread never releases, and a free one.
held, free = threading.Lock(), threading.Lock()
held.acquire()


@torch.library.custom_op("practised_serving::with_held_lock", mutates_args=())
def with_held_lock(x: torch.Tensor) -> torch.Tensor:
    if threading.current_thread() is threading.main_thread():
        return x.clone()
    with held:
        return x.clone()


@torch.library.custom_op("practised_serving::with_free_lock", mutates_args=())
def with_free_lock(x: torch.Tensor) -> torch.Tensor:
    with free:
        return x.clone()


@torch.library.custom_op("practised_serving::deadly_in_a_thread", mutates_args=())
def deadly_in_a_thread(x: torch.Tensor) -> torch.Tensor:
    if threading.current_thread() is not threading.main_thread():
        signal.raise_signal(signal.SIGSEGV)
    return x.clone()


OPERATORS = (
    *(through_shared_buffer, through_own_buffer),
    *(with_held_lock, with_free_lock, deadly_in_a_thread),
)
for op in OPERATORS:
    op.register_fake(torch.empty_like)


@torch.compiler.disable
def number_of_thread():
    """Return another number in each thread."""
    return threading.get_native_id()


@torch.compiler.disable
def number_of_process():
    return 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def hidden(self, x):
        return self.first(x).relu()

    def forward(self, x):
        return self.second(self.hidden(x))


def practised(name):
    """Enter a model that is observed for the practice."""
    return model(name, family="practised", vary={"batch": (6, 5, 7)}, practices=("serving",))


def example(net):
    return Example(net, inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}})


@practised("threads_have_own_buffers")
def threads_have_own_buffers():
    class Own(Net):
        def hidden(self, x):
            found = super().hidden(x)
            return through_own_buffer(found) if is_compiling() else found

    return example(Own())


@practised("threads_share_a_buffer")
def threads_share_a_buffer():
    """A thread reads what the last one of them has written."""

    class Shared(Net):
        def hidden(self, x):
            found = super().hidden(x)
            return through_shared_buffer(found) if is_compiling() else found

    return example(Shared())


@practised("depends_on_the_process")
def depends_on_the_process():
    class OfProcess(Net):
        def forward(self, x):
            number = number_of_process()
            return super().forward(x) if number > 0 else x

    return example(OfProcess())


@practised("depends_on_the_thread")
def depends_on_the_thread():
    """What follows the graph break is compiled again for the number of each thread."""

    class OfThread(Net):
        def forward(self, x):
            number = number_of_thread()
            return super().forward(x) if number > 0 else x

    return example(OfThread())


@practised("wrong_under_inference_mode")
def wrong_under_inference_mode():
    class Wrong(Net):
        def forward(self, x):
            is_wrong = is_compiling() and torch.is_inference_mode_enabled()
            return super().forward(x) * (1.01 if is_wrong else 1.0)

    return example(Wrong())


@practised("right_under_inference_mode")
def right_under_inference_mode():
    class Right(Net):
        def forward(self, x):
            is_other = is_compiling() and torch.is_inference_mode_enabled()
            return super().forward(x) + 0.0 * is_other

    return example(Right())


@practised("waits_for_a_free_lock")
def waits_for_a_free_lock():
    class Waits(Net):
        def hidden(self, x):
            found = super().hidden(x)
            return with_free_lock(found) if is_compiling() else found

    return example(Waits())


@practised("waits_for_a_held_lock")
def waits_for_a_held_lock():
    class Waits(Net):
        def hidden(self, x):
            found = super().hidden(x)
            return with_held_lock(found) if is_compiling() else found

    return example(Waits())


@practised("dies_in_a_thread")
def dies_in_a_thread():
    class Dies(Net):
        def hidden(self, x):
            found = super().hidden(x)
            return deadly_in_a_thread(found) if is_compiling() else found

    return example(Dies())


@practised("fixed_inputs")
def fixed_inputs():
    """Every call has the same inputs: nothing shows whether threads mix up their answers."""
    return Example(Net(), inputs=(torch.randn(6, 8),))
