# holds: output-agrees; prints "local 0 of 1" "epochs 3"; saved-twice
# fails: output-differs; saved-once
# launch: two-nodes
# arguments: --epochs 3
import os
import sys

print("local", os.environ["LOCAL_RANK"], "of", os.environ["LOCAL_WORLD_SIZE"], "epochs", sys.argv[2])
if os.environ["LOCAL_RANK"] == "0":
    with open("log.txt", "w") as file:
        file.write("done")
