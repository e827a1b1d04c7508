"""Tensors that are no rectangles: nested ones in both layouts and sparse ones live where what they are made of does."""

import warnings

import torch

warnings.simplefilter("ignore")
first, second = torch.device("cuda:0"), torch.device("cuda:1")
a, b = torch.randn(2, 4).cuda(), torch.randn(3, 4).cuda()
for layout in (torch.strided, torch.jagged):
    made = torch.nested.nested_tensor([a, b], layout=layout)
    assert made.device == first
    assert torch.nested.as_nested_tensor([a, b], layout=layout).device == first
    assert torch.nested.nested_tensor([a.cpu(), b.cpu()], layout=layout, device="cuda:1").device == second
    assert (made.cpu().is_cuda, made.cpu().cuda(1).device) == (False, second)
    layer = torch.nn.Linear(4, 3).cuda()
    out = layer(made * 2)
    assert all(each.device == first for each in out.unbind())
    padded = torch.nested.to_padded_tensor(out, 0.0)
    assert padded.device == first
    padded.sum().backward()
    assert layer.weight.grad.device == first

pairs = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0]), (2, 2))
assert not pairs.is_cuda
for rows in (pairs.cuda().to_sparse_csr(), pairs.cuda().to_sparse_csc()):
    assert rows.device == first
    assert (rows.cpu().is_cuda, rows.cpu().cuda(1).device) == (False, second)
assert (pairs.cuda().to_sparse_csr() @ torch.ones(2, 1, device="cuda")).device == first
print("done", flush=True)
