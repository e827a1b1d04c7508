"""A GPU draws as the CPU would, and from a stream of its own as soon as it is seeded apart from the host."""

import torch
from torch.utils.checkpoint import checkpoint


def trained(device, seed=None):
    """The losses of three steps with dropout, computed twice."""
    torch.manual_seed(0)
    if seed is not None:
        torch.cuda.manual_seed_all(seed)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 8)).to(device)
    x, losses = torch.randn(4, 8, device=device), []
    for _ in range(3):
        loss = checkpoint(model, x, use_reentrant=False).sum()
        loss.backward()
        losses += [loss.item(), model[0].weight.grad.sum().item()]
    return losses


assert trained("cpu") == trained("cuda") == trained("cuda", 0)
assert trained("cpu") != trained("cuda", 5) == trained("cuda", 5)

torch.manual_seed(0)
of_host = torch.rand(3)
torch.manual_seed(0)
torch.cuda.manual_seed(1)
of_gpu = torch.rand(3, device="cuda")
assert torch.equal(torch.rand(3), of_host)
torch.cuda.manual_seed(1)
assert torch.equal(torch.rand(3, device="cuda"), of_gpu)
generator = torch.cuda.default_generators[0]
assert generator.device == torch.device("cuda:0")
assert torch.equal(generator.get_state(), torch.cuda.get_rng_state())
generator.manual_seed(1)
assert torch.equal(torch.rand(3, device="cuda"), of_gpu)
torch.cuda.set_device(1)
torch.cuda.manual_seed(9)
assert torch.cuda.initial_seed() == 9 != torch.initial_seed()


def drawn():
    """Numbers of both, in turn."""
    return [torch.rand(2, device=device).tolist() for device in ("cuda", "cpu", "cuda")]


# A program that goes on from a file sets both states, in either order.
for seed in (None, 7):
    torch.manual_seed(1)
    if seed is not None:
        torch.cuda.manual_seed_all(seed)
    host, gpu = torch.get_rng_state(), torch.cuda.get_rng_state()
    expected = drawn()
    torch.manual_seed(2)
    torch.set_rng_state(host)
    torch.cuda.set_rng_state(gpu)
    assert drawn() == expected
    torch.cuda.set_rng_state_all([gpu, gpu])
    torch.set_rng_state(host)
    assert drawn() == expected

cloned = torch.Generator("cuda").manual_seed(3).clone_state()
assert cloned.device == torch.device("cuda")
assert torch.equal(
    torch.rand(2, device="cuda", generator=cloned),
    torch.rand(2, device="cuda", generator=torch.Generator("cuda").manual_seed(3)),
)
# Whoever loads a file onto the GPU has moved the states in it, too.
moved = torch.get_rng_state().cuda()
for put in (torch.set_rng_state, torch.cuda.set_rng_state, cloned.set_state):
    told = ""
    try:
        put(moved)
    except TypeError as error:
        told = str(error)
    assert told == "RNG state must be a torch.ByteTensor"
print("done", flush=True)
