"""Tensors and models go from process to process: each lives where it did, in memory that both see."""

import torch
import torch.multiprocessing as mp
from torch import nn

if __name__ != "__main__":
    # What is sent may be the first that a process hears of torch.
    assert torch.cuda.device_count() == 2


def answer(questions, answers, model, counts):
    assert next(model.parameters()).device == torch.device("cuda:0")
    assert counts.device == torch.device("cuda:1")
    counts += 1
    batch, on_host = questions.get()
    assert (batch.device, on_host.device) == (torch.device("cuda:1"), torch.device("cpu"))
    answers.put(model(batch.to("cuda:0")).detach())
    # Who sends a tensor must be there until it has come.
    assert questions.get() is None


def forked(questions, answers):
    try:
        questions.get()
    except RuntimeError as error:
        answers.put(str(error))
    else:
        answers.put("received")


if __name__ == "__main__":
    model, counts = nn.Linear(2, 2).cuda(), torch.zeros(3, device="cuda:1")
    model.share_memory()
    assert counts.is_shared()
    assert not torch.zeros(3).is_shared()
    spawn, fork = mp.get_context("spawn"), mp.get_context("fork")
    questions, answers = spawn.Queue(), spawn.Queue()
    process = spawn.Process(target=answer, args=(questions, answers, model, counts))
    process.start()
    batch = torch.ones(4, 2, device="cuda:1")
    questions.put((batch, torch.ones(2)))
    found = answers.get(timeout=60)
    assert found.device == torch.device("cuda:0")
    torch.testing.assert_close(found, model(batch.cuda(0)).detach())
    del found
    questions.put(None)
    process.join()
    assert process.exitcode == 0
    assert counts.tolist() == [1, 1, 1]

    questions, answers = fork.Queue(), fork.Queue()
    process = fork.Process(target=forked, args=(questions, answers))
    process.start()
    questions.put(batch)
    assert "Cannot re-initialize CUDA in forked subprocess" in answers.get(timeout=60)
    process.join()
    print("done", flush=True)
