# holds: hang
# fails: crash; finishes; output-differs
import time

import torch.distributed as dist

dist.init_process_group("gloo")
print(dist.get_rank())
if dist.get_rank() == 0:
    dist.barrier()
time.sleep(600)
