"""What programs ask of `torch.cuda` besides their tensors: each is answered, mostly with a constant."""

import io

import torch
from torch.profiler import ProfilerActivity, profile

# What only names a device begins nothing: a mesh looks whether a program has chosen its GPU.
chosen = torch.cuda.device(1)
if hasattr(torch.accelerator, "device_index"):
    torch.accelerator.device_index(1)
assert not torch.cuda.is_initialized()
with chosen:
    assert torch.cuda.current_device() == 1
assert torch.cuda.is_initialized()
assert torch.cuda.current_device() == 0
properties = torch.cuda.get_device_properties(0)
assert properties.total_memory > 0
assert properties.pci_bus_id == properties.pci_device_id + 1
assert properties.uuid == torch.cuda.get_device_properties("cuda:0").uuid != torch.cuda.get_device_properties(1).uuid
assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == 0
assert 0 == torch.cuda.memory_allocated() < torch.cuda.max_memory_allocated() <= torch.cuda.memory_reserved()
assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == torch.cuda.max_memory_allocated()
torch.cuda.memory._record_memory_history()
torch.cuda.memory._record_memory_history(enabled=None)
assert torch.cuda.temperature() == torch.cuda.utilization() == 0
assert torch.backends.cudnn.is_available()
with torch.cuda.nvtx.range("step"):
    torch.cuda.nvtx.mark("here")
torch.cuda.profiler.start()
torch.cuda.profiler.stop()
torch.cuda.cudart().cudaProfilerStart()

stream, event = torch.Stream("cuda"), torch.Event("cuda", enable_timing=True)
assert isinstance(stream, torch.cuda.Stream)
assert isinstance(stream, torch.Stream)
assert isinstance(event, torch.cuda.Event)
assert torch.Stream(device=1).device == torch.device("cuda:1")
with stream:
    event.record()
assert stream.priority_range() == (0, -5)
known = torch.cuda.ExternalStream(stream.cuda_stream)
assert known == stream != torch.cuda.current_stream() == torch.cuda.default_stream()
assert {stream: 1}[known] == 1
assert torch.cuda.default_stream(0) != torch.cuda.default_stream(1)
with torch.cuda.stream(known):
    assert torch.cuda.current_stream() == stream
torch.compiler.cudagraph_mark_step_begin()

# A model on two GPUs and the host: its gradients are no single list.
apart = [torch.ones(3, device=device, requires_grad=True) for device in ("cuda:0", "cuda:1", "cpu", "cuda:1")]
for each in apart:
    each.grad = torch.full_like(each, 2.0)
assert torch.nn.utils.clip_grad_norm_(apart, 1.0).device == torch.device("cuda:0")
assert [each.grad.device for each in apart] == [each.device for each in apart]
assert abs(sum(float(each.grad.square().sum()) for each in apart) - 1) < 1e-5
torch.nn.utils.clip_grad_value_(apart, 0.1)

layers = torch.nn.LSTM(2, 2).cuda()
assert layers(torch.ones(1, 1, 2).cuda())[0].is_cuda
with torch.autocast("cuda", dtype=torch.float16):
    layers(torch.ones(1, 1, 2).cuda())[0].sum().backward()
lengths = torch.tensor([1, 3])
packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 2).cuda(), lengths, enforce_sorted=False)
for recurrent in (layers, torch.nn.GRU(2, 2).cuda()):
    unpacked, again = torch.nn.utils.rnn.pad_packed_sequence(recurrent(packed)[0])
    assert unpacked.is_cuda
    assert not again.is_cuda
    assert again.tolist() == [1, 3]
    unpacked.sum().backward()

# Of a GPU the profiler records nothing, and says nothing of that either.
for activities in ([ProfilerActivity.CPU, ProfilerActivity.CUDA], [ProfilerActivity.CUDA]):
    with profile(activities=activities, record_shapes=True) as recorded:
        torch.ones(2, device="cuda").sum()
    assert "aten::sum" in recorded.key_averages().table(sort_by="cuda_time_total")
with torch.autograd.profiler.profile(use_device="cuda") as events:
    torch.ones(2, device="cuda").sum()
assert len(events.key_averages()) > 1
with torch.autograd.profiler.emit_nvtx():
    torch.ones(2, device="cuda").sum()
assert torch.cuda.get_allocator_backend() == "native"
torch.backends.cuda.preferred_linalg_library("cusolver")
file = io.BytesIO()
torch.save(layers.state_dict(), file)
for there in (lambda storage, _: storage.cuda(1), {"cuda:0": "cuda:1"}, "cuda:1"):
    file.seek(0)
    found = torch.load(file, map_location=there)
    assert {each.device for each in found.values()} == {torch.device("cuda:1")}
print("done", flush=True)
