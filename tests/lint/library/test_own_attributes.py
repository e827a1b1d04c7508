"""What a program sets on an object, and what the models find out about it, are two things."""

import pytest

from gpudoctor.lint.events.model import AttributeMissed

NET = """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self, device="cpu"):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            {sets}
        def forward(self, x):
            return self.layer(x)
    model = Net()
    """


@pytest.mark.parametrize("name", ["device", "items", "frozen", "containers", "finished", "initialised", "sharded"])
def test_an_attribute_holds_what_it_was_set_to(paper, name: str):
    sets = f"self.{name} = 'mine'"
    paper(NET.format(sets=sets) + f"model.to('cuda')\n    reveal(model.{name})  #: 'mine'\n")


def test_the_device_of_a_model_that_says_none_is_where_it_was_moved(paper):
    paper("import torchvision\nmodel = torchvision.models.resnet18().to('cuda')\nreveal(model.device)  #: cuda\n")


def test_the_mode_is_an_attribute(paper):
    text = NET.format(sets="pass")
    paper(text + "model.eval()\n    reveal(model.training)  #: False\n    model.training = True\n"
          "    reveal(model.training)  #: True\n")  # fmt: skip


WRAPPED = """
    torch.distributed.init_process_group("nccl")
    wrapped = nn.parallel.DistributedDataParallel(model.cuda())
    wrapped.finished
    wrapped.size
    """


def test_what_is_known_of_a_model_is_none_of_its_attributes(paper):
    found = paper(NET.format(sets="self.size = 2") + WRAPPED)
    assert {event.name: event.inner_has for event in found.events(AttributeMissed)} == {"finished": False, "size": True}


SHARED = """
    import multiprocessing
    import torch.multiprocessing as mp
    def work(rank, stop):
        stop.value = rank == 0
        reveal(stop.value)  #: unknown
    if __name__ == "__main__":
        mp.spawn(work, args=({made},))
    """


@pytest.mark.parametrize("made", ["mp.Manager().Value('b', False)", "multiprocessing.Value('b', False)"])
def test_what_all_processes_write_is_not_what_this_one_has_written(paper, made: str):
    paper(SHARED.format(made=made), launch="spawn")
