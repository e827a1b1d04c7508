"""Options that say whether a GPU is used: the GPU is taken where it is what the program does without them."""

import pytest

from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward

START = """
    import argparse, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--with-gpu", action="store_false", dest="keep")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--gpu", default=True, type=bool)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--place", default="cpu")
    args = parser.parse_args()
    available = torch.cuda.is_available()
    """
DEVICES = {
    "beside the question": ("torch.device('cuda' if available and not args.no_cuda else 'cpu')", "cuda"),
    "before it": ("torch.device('cuda' if not args.no_cuda and available else 'cpu')", "cuda"),
    "alone": ("torch.device('cpu' if args.no_cuda else 'cuda')", "cuda"),
    "on by a default": ("torch.device('cuda:1' if args.gpu else 'cpu')", "cuda:1"),
    "on until it is switched off": ("torch.device('cuda' if args.keep else 'cpu')", "cuda"),
    "two of them": ("torch.device('cuda' if args.gpu and not args.no_cuda else 'cpu')", "cuda"),
    "named by its default": ("torch.device(args.device)", "cuda:0"),
    "off by default": ("torch.device('cuda' if args.cuda else 'cpu')", "cuda if args.cuda | cpu if not (args.cuda)"),
    "the CPU by default": ("torch.device(args.place)", "setting args.place"),
}


@pytest.mark.parametrize(("device", "expected"), DEVICES.values(), ids=DEVICES)
def test_the_gpu_is_taken(paper, device: str, expected: str):
    paper(START + f"device = {device}\n    reveal(device)  #: {expected}\n")


def test_a_model_that_only_moves_where_nobody_says_otherwise(paper):
    found = paper(
        START
        + """args.cuda = not args.no_cuda and torch.cuda.is_available()
    net = torch.nn.Linear(2, 2)
    if args.cuda:
        net.cuda()
    net(torch.zeros(2))
    """
    )
    assert [str(event.device.single.type) for event in found.events(Forward)] == ["cuda"]


def test_other_switches_stay_open(paper):
    paper(
        START
        + """if args.no_cuda:
        reveal(())  #: ()
    net = torch.nn.Linear(2, 2)
    if not args.cuda:
        net = net.cuda()
        reveal(())  #: ()
    else:
        reveal(())  #: ()
    """
    )


def test_a_type_that_lies_on_the_gpu_moves_and_another_one_converts(paper):
    found = paper(
        """
        import torch
        x = torch.zeros(4, requires_grad=True)
        there, here = x.type(torch.cuda.FloatTensor), x.type(torch.float16)
        reveal(there.device)  #: cuda
        reveal(x.type("torch.cuda.HalfTensor").device)  #: cuda
        reveal(here.device)  #: cpu
        reveal(there.type(torch.FloatTensor).device)  #: cpu
        reveal(there.type(here.dtype).device)  #: cuda
        reveal(x.type() == there.type())  #: False
        reveal(torch.cuda.ByteTensor(4).device)  #: cuda
        torch.nn.Linear(4, 4).cuda()(there).type(here.dtype).sum().backward()
        """
    )
    assert [len(each.forwards) for each in found.events(Backward)] == [1]
