"""Errors of services and of the network to them: the Hugging Face Hub, trackers of experiments, data from the web."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText

_of_service = partial(ErrorText, tells_more=True)
_huggingface_hub = partial(_of_service, library="huggingface_hub")

SERVICE_TEXTS: tuple[ErrorText, ...] = (
    _huggingface_hub(
        r"GatedRepoError|Cannot access gated repo|Access to model \S+ is restricted|"
        r"You are trying to access a gated repo",
        "The model or data set on the Hugging Face Hub is behind a licence that this account has not accepted, or the "
        "process has no token.",
        "Ask for access on its page, then `hf auth login` on the node, or set `HF_TOKEN` for every rank.",
    ),
    _huggingface_hub(
        r"RepositoryNotFoundError|is not a local folder and is not a valid model identifier|"
        r"(?:doesn't|does not) exist on the Hub or cannot be accessed|Repository Not Found for url|"
        r"Invalid user token|Invalid username or password|"
        r"datasets\.exceptions\.DatasetNotFoundError|RevisionNotFoundError|401 Client Error: Unauthorized for url: https://huggingface",
        "The name stands for no folder on this node and for no repository on the Hugging Face Hub that this account "
        "may read.",
        "Look whether the path exists on the node of this rank; a private repository needs `HF_TOKEN` on every rank.",
    ),
    _huggingface_hub(
        r"HFValidationError|Repo id must (?:be in the form|use alphanumeric)",
        "A path was taken for the name of a repository on the Hugging Face Hub, because there is no such folder.",
        "Look whether the path exists on the node of this rank, as the program is started.",
    ),
    _huggingface_hub(
        r"OfflineModeIsEnabled|LocalEntryNotFoundError|We couldn't connect to 'https://huggingface|"
        r"Couldn't reach '?\S+'? on the Hub|outgoing traffic has been disabled|"
        r"(?:Failed to resolve|host=)\W*'?(?:huggingface\.co|cdn-lfs|hf-mirror)|"
        r"couldn't find them in the cached files|Cannot send a request, as the client has been closed",
        "The node does not reach the Hugging Face Hub, or is told not to (`HF_HUB_OFFLINE`), and its cache does not "
        "have the file.",
        "Download before the job on a node with network, and let `HF_HOME` name a folder that all nodes share.",
    ),
    _huggingface_hub(
        r"429 Client Error|Too Many Requests for url",
        "The service refuses more requests: all ranks of a job ask at once.",
        "Let one rank download and the others wait (`barrier`), or download before the job.",
        likely=("GPU314",),
    ),
    _of_service(
        r"Can't load (?:the )?(?:tokenizer|feature extractor|image processor|model|configuration|config|processor)\b.*"
        r" for '|does not appear to have (?:a file|files) named|Error no file named \S+|"
        r"EntryNotFoundError|Unable to load (?:weights|vocabulary) from|no file named \S+ found in directory",
        "The folder or repository lacks a file that loading a model needs: the path is wrong, saving did not end, or "
        "it holds a checkpoint of another kind (of an adapter, of shards).",
        "Look at what the folder holds on the node of this rank.",
        library="transformers",
    ),
    _huggingface_hub(
        r"HfHubHTTPError|(?:500|502|503|504) (?:Server|Client) Error|Consistency check failed: file should be of size",
        "The service that files are downloaded from failed, or a download was cut off.",
        "Start again, or download before the job.",
    ),
    _of_service(
        r"api_key not configured|wandb\.(?:\w+\.)*\w*(?:CommError|UsageError|AuthenticationError|Error): .*"
        r"(?:permission|403|401|api.key|log ?in|not found|entity)",
        "Weights & Biases did not take the run: no permission, no key, or the entity or project does not exist.",
        "Log on rank 0 only, and try `WANDB_MODE=offline`, or `wandb login` on the node.",
        likely=("GPU607",),
        library="wandb",
    ),
    _of_service(
        r"wandb\.(?:\w+\.)*\w*(?:CommError|UsageError|AuthenticationError)|Error communicating with wandb process|"
        r"ServiceStart\w*Error|MailboxClosedError|MailboxError|wandb_internal|Run initialization has timed out",
        "Weights & Biases did not answer: no network on this node, or its own process has ended.",
        "Log on rank 0 only, and try `WANDB_MODE=offline`.",
        likely=("GPU607",),
        library="wandb",
    ),
    _of_service(
        r"Attempted to change value of key .* in sweep|Attempted to change value of key|"
        r"(?:MlflowException|RestException|comet_ml\.\w+\.\w+|ClearML\w*|neptune\.\w+\.\w+)\b",
        "The service that the experiment is logged to refuses what it was given, or is not reached.",
        "Log on rank 0 only; the text says what it refuses.",
        likely=("GPU607",),
        library="trackers",
    ),
    _of_service(
        r"CERTIFICATE_VERIFY_FAILED|SSLError|SSLEOFError|SSL: \w+",
        "A secure connection was refused: a proxy between, an old list of certificates, or a wrong clock.",
        "`REQUESTS_CA_BUNDLE` names the proxy's certificate; or download before the job.",
        library="network",
    ),
    _of_service(
        r"HTTPS?ConnectionPool|requests\.exceptions\.|urllib3\.exceptions\.|httpx\.\w+|httpcore\.\w+|"
        r"urllib\.error\.|aiohttp\.\w+|ClientConnectorError|botocore\.exceptions\.|Max retries exceeded with url|"
        r"google\.api_core\.exceptions\.|azure\.core\.exceptions\.|HTTPError: HTTP Error \d+",
        "A request to a service outside of the job failed: the node has no network to it, or the service refused.",
        "Download before the job, or let one rank ask and the others wait.",
        likely=("GPU314",),
        library="network",
    ),
)
