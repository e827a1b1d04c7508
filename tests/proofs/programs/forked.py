# holds: saved-twice
# fails: saved-once
# launch: spawn
import torch
import torch.multiprocessing as mp


def work():
    torch.save(torch.ones(1), "one.pt")


if __name__ == "__main__":
    processes = [mp.get_context("fork").Process(target=work) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
