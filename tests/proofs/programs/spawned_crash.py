# holds: crash "Process 1 terminated with the following error" "KeyError: 'nobody'"
# fails: finishes; hang; saved-once
# launch: spawn
import torch.multiprocessing as mp


def fail(rank):
    if rank == 1:
        raise KeyError("nobody")


if __name__ == "__main__":
    mp.spawn(fail, nprocs=2)
