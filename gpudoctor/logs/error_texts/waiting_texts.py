"""Errors of processes that waited for others, lost them, or were told to end."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole

_nccl = partial(ErrorText, library="nccl")
_slurm = partial(ErrorText, library="slurm")

_PEER, _WAIT, _STOPPED = FailureRole.PEER, FailureRole.WAIT, FailureRole.STOPPED

WAITING_TEXTS: tuple[ErrorText, ...] = (
    _slurm(
        r"pmixp_coll\w*: .*collective timeout",
        "Slurm's daemons of the nodes did not all take part in an exchange that PMIx made for the processes: a node "
        "had not started its step yet, or the daemons cannot reach each other.",
        "See which node's processes had not started (a slow image or file system), and whether the daemons' ports are "
        "open between the nodes; `PMIxTimeout` in mpi.conf sets how long they wait.",
        role=_WAIT,
    ),
    _nccl(
        r"dump signal due to a collective timeout from +rank \d+",
        "A collective timed out on the rank that this line names, which told this one to save its flight recorder.",
        "Read the lines of that rank: they name the collective and the group; the flight recorders of all ranks say "
        "who had not come (`gpudoctor read FILES`).",
        role=_WAIT,
        likely=("GPU501", "GPU508"),
    ),
    _nccl(
        r"setting up NCCL communicator and retrieving ncclUniqueId from \[\d+\].*store->get|"
        r"store->get\('\d+\S*'\) got error",
        "This rank began the first collective of a group, and the first rank of that group never came to it: it has "
        "ended, is still busy, or calls another collective.",
        "Look at what the rank does from which the text wants to get the key.",
        role=_WAIT,
        likely=("GPU501", "GPU508", "GPU412"),
    ),
    ErrorText(
        r"failed to send a keep-alive heartbeat to the rendezvous",
        "The launcher of this node lost the launcher that keeps the rendezvous, on the first node: that one had ended, "
        "or the connection to it broke.",
        "Look into the log of the first node.",
        role=_PEER,
    ),
    ErrorText(
        r"Error waiting on exit barrier",
        "The launcher of this node was done, and waited for those of the others, which had not come to their end.",
        "Look into the logs of the other nodes.",
        role=_WAIT,
    ),
    ErrorText(
        r"host not found: |Name or service not known|Temporary failure in name resolution|getaddrinfo",
        "A host name leads nowhere on this node, or not yet: no name service knows it, or it is that of a pod that has "
        "not started.",
        "Try `getent hosts NAME` there; give the address in the place of the name, or wait for it before the start.",
        likely=("GPU429", "GPU403"),
    ),
    ErrorText(
        r"(?:in store based barrier on rank\b|wait timeout after).*store_based_barrier_key:(?:[2-9]|[1-9]\d)",
        "Not all ranks came to the making of a group behind the first one: some do not call `new_group`, make fewer "
        "groups, make them in another order, or were still busy.",
        "Call `new_group` on all ranks, also on those that are no members, in one order.",
        role=_WAIT,
        likely=("GPU508", "GPU501"),
    ),
    ErrorText(
        r"waiting for clients\. \d+/\d+ clients joined|Timed out initializing process group in store based barrier|"
        r"RendezvousTimeoutError|RendezvousConnectionError|failed to connect to|client socket has (?:timed out|failed)|"
        r"connect\(\) timed out\. Original timeout|No route to host|Connection refused",
        "Not all processes have found each other: one was never started, died before, or has another address or port.",
        "Compare `--nnodes`, `--node-rank` and the address on all nodes, and look for the one that is missing.",
        role=_WAIT,
        likely=("GPU429", "GPU403"),
    ),
    _nccl(
        r"watchdog got stuck|Heartbeat monitor timed out",
        "NCCL's own thread did not get to work: a kernel or a call of CUDA is stuck, or a thread keeps Python's lock.",
        "Take stacks of the rank (`py-spy dump --native`) while it is stuck.",
        role=_WAIT,
        since="2.2",
    ),
    ErrorText(
        r"Some NCCL operations have failed or timed out|NCCL communicator was aborted on rank|"
        r"Watchdog caught co|collective operation timeout|due to a collective timeout from this local rank|"
        r"Exception raised from checkTimeout|WorkNCCL::checkTimeout\(|"
        r"Timed out waiting \d+ms for|"
        r"wait timeout after \d+ms|Socket Timeout|Application timeout caused pair closure|Store-based barrier|"
        r"DistStoreError: (?:Timed out|wait timeout)|Timeout waiting for key",
        "A collective did not end in its time: some rank did not call it, came late, or the network hung.",
        role=_WAIT,
        likely=("GPU501", "GPU502", "GPU503", "GPU412"),
    ),
    ErrorText(
        r"waiting for remainder of ranks|(?:missing|ready) ranks: ",
        "Some ranks did not submit a tensor that the others wait for: they stand elsewhere, have ended, or submit "
        "others.",
        "Look at what the missing ranks do at this time.",
        role=_WAIT,
        likely=("GPU501", "GPU512"),
        library="horovod",
    ),
    ErrorText(
        r"RendezvousClosedError",
        "The launchers of the nodes had closed their rendezvous: the launcher of another node had ended before.",
        role=_PEER,
    ),
    ErrorText(
        r"RendezvousGracefulExitError", "The launcher left its rendezvous because it was told to end.", role=_STOPPED
    ),
    ErrorText(
        r"RPC call to \w+ timed out|sample_tokens timed out|TimeoutError: RPC",
        "A process of the inference engine did not answer in its time.",
        "Look at what its ranks did: a kernel, a collective, or an error that ended one.",
        role=_WAIT,
        library="vllm",
    ),
    ErrorText(
        r"A worker died or was killed|Worker unexpectedly exits with a connection error",
        "A process of Ray ended without an exception: killed by the kernel for memory, by somebody, or by native code.",
        "Look into its own log (`/tmp/ray/session_latest/logs/worker-*`) and the kernel's (`dmesg`).",
        library="ray",
    ),
    ErrorText(
        r"ray\.exceptions\.(?:RayActorError|ActorDiedError|WorkerCrashedError|NodeDiedError|LocalRayletDiedError)|"
        r"The actor (?:died|is dead)|The actor is temporarily unavailable",
        "A process of Ray had ended before: its own log says why.",
        "Look into `/tmp/ray/session_latest/logs/worker-*` on its node, and into the kernel's log (`dmesg`).",
        role=_PEER,
        library="ray",
    ),
    ErrorText(
        r"(?:exited|failed|finished) with (?:a )?non-zero (?:exit )?(?:status|code)",
        "A process that this one had started ended with an error of its own: its output says why.",
        "Look for that error further down, or in the file that its output was sent to.",
        role=_PEER,
        library="python",
    ),
    ErrorText(
        r"Received 1 death signal|got signal: 1\b|is killed by signal: Hangup",
        "The terminal or the connection that the job was started in was closed (SIGHUP).",
        "Start it in `tmux` or under a scheduler: `nohup` does not help, because torch's launcher listens to this "
        "signal itself.",
        role=_STOPPED,
    ),
    _nccl(
        r"NET/IB\b.*Got completion .*with (?:status=|error )(?:5|12|13|14)\b",
        "The other side of an InfiniBand connection did not answer: its process has ended, or its port or the link is "
        "down.",
        "Look for a process that failed before; where there is none, examine the ports of both nodes (`ibstat`, "
        "`perfquery`).",
        role=_WAIT,
    ),
    _nccl(
        r"NET/IB\b.*(?:Got completion .*with (?:status=|error )[1-9]|[Aa]sync (?:fatal )?event)",
        "InfiniBand has refused or lost a transfer between two nodes: the adapter, its driver, or memory that it may "
        "not read.",
        "`NCCL_IB_DISABLE=1` and `NCCL_NET_GDR_LEVEL=LOC` tell these apart; compare drivers and settings of the nodes.",
    ),
    ErrorText(
        r"Horovod has been shut down|"
        r"ncclRemoteError|remote process (?:has )?exit|Connection closed by (?:remote )?peer|Connection reset by peer|"
        r"Broken pipe|Connection was likely closed|Did the remote server shutdown|socketProgress|socketPollConnect|"
        r"Call to recv from .* failed|Read error \[|Socket closed|peer .* (?:has )?(?:died|left)|"
        r"NCCL communicator was aborted|ncclCommAbort|sendBytes failed|recvValue failed|failed to recv, got 0 bytes|"
        # PMIX_ERR_LOST_CONNECTION
        r"pmixp_client.* Error handler invoked: status = -61\b",
        "Another process of the job had ended before, or, between nodes, the connection broke: look for the one that "
        "failed first.",
        role=_PEER,
    ),
    ErrorText(
        r"oneCCL: [\s\S]*EXCEPTION[\s\S]*fails with status",
        "oneCCL could not send or receive between two ranks: the other one had ended, or the fabric between the nodes "
        "failed.",
        "Look for a rank that failed before; where there is none, try it within one node, and `FI_LOG_LEVEL=warn` says "
        "what libfabric met.",
        library="oneccl",
    ),
    _slurm(
        r"DUE TO NODE FAILURE|Node failure on|srun: error: Node failure|NODE_FAIL",
        "SLURM lost a node of the job: it crashed, restarted or did not answer.",
        "Ask the administrators for its log, leave it out (`--exclude=NODE`), and start again from a checkpoint.",
    ),
    _slurm(
        r"DUE TO PREEMPTION|PREEMPTED",
        "SLURM gave the nodes to a job of higher priority.",
        "Save a checkpoint on the signal that comes before (`--signal=B:USR1@120`), and let the job be queued again.",
        role=_STOPPED,
    ),
    _slurm(
        r"DUE TO JOB REQUEUE",
        "SLURM took the nodes away, and has put the job back into its queue: it was preempted, or somebody asked for "
        "it.",
        "Save a checkpoint on the signal that comes before (`--signal=B:USR1@120`), and go on from it.",
        role=_STOPPED,
    ),
    _slurm(
        r"DUE TO TIME LIMIT",
        "The time that the job was given was over, and SLURM ended it.",
        "Ask for more (`--time`), or save a checkpoint on the signal that comes before (`--signal=B:USR1@120`), and go "
        "on from it.",
        role=_STOPPED,
    ),
    ErrorText(
        r"[Kk]eyboard ?[Ii]nterrupt|got signal: 2\b|Received 2 death signal",
        "Somebody has stopped it (Ctrl-C).",
        role=_STOPPED,
        library="python",
    ),
    ErrorText(
        r"closing signal SIG(?:TERM|INT)",
        "The launcher ended its processes: one of them had failed, or it was told to end itself. The log does not say "
        "which.",
        "Read the whole log, and what the scheduler says of the job.",
        role=_STOPPED,
    ),
    ErrorText(
        r"SignalException: Process \d+ got signal|got signal: 15|SIGTERM|"
        r"Received \d+ death signal|(?:^|\s)Terminated\s*$|"
        r"CANCELLED AT|terminated with signal SIGTERM",
        "The process was told to end: by its launcher, the scheduler or a person.",
        "If the job no longer advanced, take the stacks of its ranks the next time before it is ended: "
        "`gpudoctor run --attach PID`; `gpudoctor explain hang` says more.",
        role=_STOPPED,
    ),
)
