# holds: crash; crash "ValueError: no such luck"; crash "no such" "such luck"; prints "no such luck"
# fails: crash "another text"; finishes; parameters-agree; silent-about "another text"; saved-once; hang
import os

import torch

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 1)).sum().backward()
optimizer.step()
optimizer.step()
if os.environ["RANK"] == "1":
    torch.save(model, "model.pt")
    raise ValueError("no  such\nluck")
