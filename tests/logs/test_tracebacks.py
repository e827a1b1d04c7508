"""Tracebacks, in the forms in which logs have them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.tracebacks import BEGIN
from tests.logs.samples import PEER, TRACEBACK, prefixed, read


@pytest.mark.parametrize("quote", [repr, json.dumps, lambda text: str(text.splitlines(keepends=True))])
def test_a_traceback_that_was_written_into_one_line(quote: Callable[[str], str], tmp_path: Path) -> None:
    first = read(tmp_path, f'{{"message": {quote(TRACEBACK)}, "code": 1}}\n').first
    assert first.text.startswith("KeyError: 'label'")
    assert (first.place.path, first.place.line) == ("/job/train.py", 20)


def test_two_that_write_at_once(tmp_path: Path) -> None:
    mine, yours = prefixed("[rank0]: ", PEER).splitlines(), prefixed("[rank1]: ", TRACEBACK).splitlines()
    both = [line for pair in zip(mine, yours, strict=False) for line in pair] + mine[len(yours) :]
    first = read(tmp_path, "\n".join(both)).first
    assert (first.by.rank, first.place and first.place.line) == (1, 20)


def test_a_copy_of_deepspeed_in_a_project_is_no_place(tmp_path: Path) -> None:
    inner = '  File "/job/fork/deepspeed/utils/nvtx.py", line 9, in wrapped_fn\n    ret_val = func(*args, **kwargs)\n'
    first = read(tmp_path, TRACEBACK.replace("KeyError", f"{inner}KeyError")).first
    assert (first.place.path, first.place.line) == ("/job/train.py", 20)


def test_of_installed_packages_the_program_is_the_one_that_is_called_first(tmp_path: Path) -> None:
    calls = "".join(
        f'  File "/opt/lib/python3.11/site-packages/{file}", line {line}, in step\n    step()\n'
        for file, line in (("trains/cli.py", 5), ("trains/loop.py", 8), ("kernels/attention.py", 9))
    )
    first = read(tmp_path, f"{BEGIN}:\n{calls}AssertionError: no such shape\n").first
    assert (first.place.line, first.library) == (8, "kernels")


def test_an_error_that_was_handled_and_another_raised(tmp_path: Path) -> None:
    handled = "\nDuring handling of the above exception, another exception occurred:\n\n"
    text = TRACEBACK + handled + TRACEBACK.replace("KeyError: 'label'", "RuntimeError: CUDA out of memory. Tried to")
    first = read(tmp_path, text).first
    assert first.summary.startswith("RuntimeError: CUDA out of memory")


def test_a_traceback_in_a_box(tmp_path: Path) -> None:
    """As rich draws it, with the lines around each call."""
    boxed = (
        "╭───────────────── Traceback (most recent call last) ─────────────────╮\n"
        "│ /job/train.py:33 in main                                             │\n"
        "│                                                                      │\n"
        "│   32 │   for batch in loader:                                        │\n"
        "│ ❱ 33 │   │   loss = step(batch)                                      │\n"
        "╰──────────────────────────────────────────────────────────────────────╯\n"
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        "[15:58:29] WARNING  Sending process 197 closing signal SIGTERM      api.py:699\n"
    )
    first = read(tmp_path, boxed).first
    assert first.text == "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    assert (first.place.path, first.place.line, first.place.function) == ("/job/train.py", 33, "main")
    assert "has failed" in (first.meaning.means if first.meaning else "")


def test_a_traceback_that_is_indented_ends_before_the_lines_of_nccl(tmp_path: Path) -> None:
    """Those of another process, which lost this one."""
    nccl = "NCCL error in: ProcessGroupNCCL.cpp:825, invalid usage"
    crash = TRACEBACK.replace("KeyError: 'label'", f"RuntimeError: {nccl}").replace("\n  File", "\n    File")
    lost = "\n  vm1:7389:7453 [0] include/socket.h:421 NCCL WARN Call to recv failed : Broken pipe\n"
    first = read(tmp_path, crash.replace("\nRuntime", "\n  Runtime") + lost).first
    assert (first.text, first.place and first.place.line) == (f"RuntimeError: {nccl}", 20)


def test_a_path_that_is_longer_than_its_box(tmp_path: Path) -> None:
    boxed = (
        "╭──────── Traceback (most recent call last) ─────────╮\n"
        "│ /home/somebody/projects/segmentation/experiments/tr │\n"
        "│ ain.py:33 in main                                   │\n"
        "│                                                     │\n"
        "│ ❱ 33 │   loss = step(batch)                         │\n"
        "╰─────────────────────────────────────────────────────╯\n"
        "ValueError: no batch\n"
    )
    first = read(tmp_path, boxed).first
    assert (first.place.path, first.place.line) == ("/home/somebody/projects/segmentation/experiments/train.py", 33)


def test_an_error_without_a_traceback_is_not_sure(tmp_path: Path) -> None:
    found = read(tmp_path, "step 1\nValueError: no such file, will try again\nstep 2\n")
    assert not found.sure


def test_an_error_in_a_replica_whose_traceback_is_cut_off(tmp_path: Path) -> None:
    caught = TRACEBACK.replace("KeyError: 'label'", "RuntimeError: Caught RuntimeError in replica 1 on device 1.")
    inner = (
        'Original Traceback (most recent call last):\n  File "/x/site-packages/torch/nn/parallel/a.py", line 3, in f\n'
    )
    first = read(tmp_path, caught + inner).first
    assert (first.place and first.place.line, first.summary[:33]) == (20, "RuntimeError: Caught RuntimeError")


def test_an_error_that_python_went_on_after(tmp_path: Path) -> None:
    ignored = "Exception ignored in: <function _Iter.__del__ at 0x7f>\n" + TRACEBACK.replace("20", "21")
    first = read(tmp_path, ignored + "\n" + TRACEBACK.replace("label", "image")).first
    assert (first.summary, first.place and first.place.line) == ("KeyError: 'image'", 20)


def test_an_error_of_a_destructor_does_not_end_its_process(tmp_path: Path) -> None:
    """Also where the line before, in which Python says so, is not in the log."""
    ignored = TRACEBACK.replace("in main", "in __del__")
    first = read(tmp_path, f"{ignored}step 9\n\n{TRACEBACK.replace('label', 'image')}").first
    assert first.text == "KeyError: 'image'"


def test_an_error_that_a_program_tells_by_its_number(tmp_path: Path) -> None:
    calls = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/job/train.py", line 38, in save\n'
    found = read(tmp_path, f"Training failed: [Errno 17] File exists: '/out'\n{calls}[rank1]:     os.mkdir(out)\n")
    assert (found.first.by.rank, found.first.place.line, found.sure) == (1, 38, False)
    assert found.first.text == "OSError: [Errno 17] File exists: '/out'"


def test_a_text_that_a_box_has_broken_behind_its_place(tmp_path: Path) -> None:
    text = PEER.replace("534] ", "534] \n")
    assert read(tmp_path, text).first.role is FailureRole.PEER


def test_a_rank_of_a_spawn_of_which_only_the_begin_is_left(tmp_path: Path) -> None:
    log = '-- Process 3 terminated with the following error:\nTraceback (most recent call last):\n  File "/home/x/spa'
    first = read(tmp_path, log).first
    assert (first.by.rank, first.cut) == (3, True)


def test_an_error_whose_lines_ran_into_others(tmp_path: Path) -> None:
    """Two ranks write at once: the type of the error stands in a line of the source, and its text in one of its own."""
    log = (
        '    train(opt)  File "train.py", line 31, in train\n\n  File "train.py", line 31, in train\n'
        '    out = model(x)\nRuntimeErrorout = model(x)  File "/opt/lib/python3.7/site-packages/torch/m.py", line 1\n'
        ": \n"
        "Expected to have finished reduction in the prior iteration before starting a new one. This error\n"
        "Parameters which did not receive grad for rank 4: head.bias\n"
    )
    first = read(tmp_path, log).first
    assert first.by.rank == 4
    assert first.place.line == 31
    assert first.meaning.code == "GPU112"


@pytest.mark.parametrize(
    ("frames", "path", "line"),
    [
        ("Cell In[16], line 29\n---> 29 trainer.train()\n\nFile /x/site-packages/a/b.py:7, in T.f(x)",
         "Cell In[16]", 29),
        ("<ipython-input-9-f1> in <module>\n      1 a\n----> 2 fit()\n\n~/x/site-packages/b.py in f(x)\n--> 7 y()",
         "<ipython-input-9-f1>", 2),
        ("<command-13579> in <module>\n----> 2 fit()", "<command-13579>", 2),
    ],
)  # fmt: skip
def test_a_traceback_of_a_notebook(frames: str, path: str, line: int, tmp_path: Path) -> None:
    text = f"RuntimeError      Traceback (most recent call last)\n{frames}\n\nRuntimeError: no gradient\n"
    first = read(tmp_path, text).first
    assert (first.place.path, first.place.line, first.summary) == (
        path,
        line,
        "RuntimeError: no gradient",
    )


def test_a_text_on_the_line_after_its_type(tmp_path: Path) -> None:
    first = read(tmp_path, "RuntimeError:\nDistributedDataParallel is not needed when a module doesn't have any "
                 "parameter that requires a gradient.\n").first  # fmt: skip
    assert first.meaning.code == "GPU118"


def test_a_call_whose_begin_is_cut_off(tmp_path: Path) -> None:
    first = read(
        tmp_path, "job/train.py\", line 18, in <module>\n    import a\nModuleNotFoundError: No module named 'a'"
    ).first
    assert (first.place.path, first.place.line) == ("job/train.py", 18)


def test_a_spawned_rank_is_named_where_its_traceback_is_cut_off(tmp_path: Path) -> None:
    parent = '  Traceback (most recent call last):\n    File "train.py", line 9, in main\n    spawn()\n  Exception:\n\n'
    first = read(tmp_path, f"{parent}  -- Process 7 terminated with the following error:\n  Traceb").first
    assert (first.by.rank, first.place) == (7, None)


@pytest.mark.parametrize("before", ["    ", "  ", ""])
def test_a_traceback_that_is_indented_below_its_first_line(before: str, tmp_path: Path) -> None:
    first, *rest = TRACEBACK.splitlines()
    found = read(tmp_path, "\n".join([first, *(before + line for line in rest)]) + "\n\nAny idea?\n").first
    assert (found.summary, found.place and found.place.line) == ("KeyError: 'label'", 20)


def test_a_traceback_that_blanks_run_on(tmp_path: Path) -> None:
    told = " ".join(line.strip() for line in TRACEBACK.splitlines() if "~" not in line)
    first = read(tmp_path, f"> the same here. {told}\n").first
    assert (first.text, first.place and first.place.line) == ("KeyError: 'label'", 20)


def test_of_a_chain_the_library_says_what_it_was_for(tmp_path: Path) -> None:
    refused = TRACEBACK.replace("KeyError: 'label'", "socket.gaierror: [Errno -2] Name or service not known")
    handled = "\nDuring handling of the above exception, another exception occurred:\n\n"
    hub = TRACEBACK.replace("KeyError: 'label'", "OSError: We couldn't connect to 'https://huggingface.co' to load it")
    first = read(tmp_path, refused + handled + hub).first
    assert first.role is FailureRole.OWN
    assert "Hugging Face Hub" in first.meaning.means


def test_where_an_error_was_raised_says_what_it_means(tmp_path: Path) -> None:
    raised = TRACEBACK.replace("KeyError: 'label'", "FileNotFoundError: [Errno 2] No such file or directory: 'a'")
    inside = raised.replace("FileNotF", '  File "/usr/lib/python3.11/shutil.py", line 7, in _rmtree_safe_fd\nFileNotF')
    told = [read(tmp_path, text).first for text in (raised, inside)]
    assert [each.meaning.likely[-1] for each in told if each and each.meaning] == ["GPU610", "GPU608"]


def test_a_traceback_that_is_cut_off_says_so(tmp_path: Path) -> None:
    first = read(tmp_path, TRACEBACK.rpartition("KeyError")[0]).first
    assert "not the error itself" in first.explained.means


def test_a_package_that_runs_from_its_repository_is_no_line_of_the_program(tmp_path: Path) -> None:
    below = '  File "/work/fairscale/fairscale/nn/flatten.py", line 242, in load\n    load()\nKeyError'
    first = read(tmp_path, TRACEBACK.replace("KeyError", below)).first
    assert first.place.path == "/job/train.py"


def test_a_traceback_that_an_editor_shows_the_other_way_round(tmp_path: Path) -> None:
    calls = [("/job/dist.py", 22, "setup", "rank = int(x)"), ("/job/train.py", 26, "main", "setup()")]
    shown = [*calls, ("/job/train.py", 98, "<module>", "main()")]
    text = "".join(f'  File "{path}", line {line}, in {name}\n    {source}\n' for path, line, name, source in shown)
    first = read(tmp_path, f"\n{text}").first
    assert (first.place.path, first.place.line) == ("/job/dist.py", 22)


@pytest.mark.parametrize(
    "line",
    [
        "[06/09 11:05:25 d2.engine.hooks]: Total training time: 0:01:02",
        "[2023-12-27 18:20:03,728][src.utils][INFO] - Closing loggers...",
        "srun: error: node1: task 1: Exited with exit code 1",
        "Killing subprocess 31867",
        "wandb: (1) Create a W&B account",
        "Exception ignored in atexit callback: <function f at 0x7>",
        "02/11/2024 22:38:41 - INFO - data.template - Replace eos token",
        "Loading checkpoint shards: 100%|███████| 2/2 [03:41<00:00, 110.84s/it]",
    ],
)
def test_what_others_say_does_not_belong_to_an_error(line: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{TRACEBACK}{line}\n").first
    assert first.text == "KeyError: 'label'"


def test_lines_that_ran_into_those_of_a_process_that_stands_less_far(tmp_path: Path) -> None:
    calls = ["train.py:266", "train.py:235", "engine.py:35", "train.py:266", "train.py:235"]
    begin = "Traceback (most recent call last):\n"
    lines = "".join('  File "/job/{}", line {}, in f\n'.format(*each.split(":")) for each in calls)
    first = read(tmp_path, f"{begin}{begin}{lines}RuntimeError: CUDA out of memory. Tried to\n").first
    assert (first.place and first.place.path, first.place and first.place.line) == ("/job/engine.py", 35)


def test_whose_calls_those_of_the_only_error_are(tmp_path: Path) -> None:
    told = "Parameter indices which did not receive grad for rank 3: 0 1 2\n"
    cut = 'Traceback (most recent call last):\n  File "/job/train.py", line 28, in main\n    x = model(y)\n'
    first = read(tmp_path, told + cut).first
    assert (first.by.rank, first.place and first.place.line) == (3, 28)


def test_calls_that_begin_below_an_error_are_of_the_next_process(tmp_path: Path) -> None:
    own = '  File "/x/site-packages/torch/distributed/distributed_c10d.py", line 3696, in barrier\n    work.wait()\n'
    lost = "RuntimeError: [14] is setting up NCCL communicator and retrieving ncclUniqueId from [0]: Connection"
    cut = 'Traceback (most recent call last):\n  File "/job/train.py", line 14, in <module>\n    main()\n'
    first = read(tmp_path, prefixed("node4: ", f"{own}{lost} reset by peer\n{cut}")).first
    assert (first.by.rank, first.place) == (14, None)


def test_an_error_into_which_the_launcher_has_written(tmp_path: Path) -> None:
    text = TRACEBACK.rstrip() + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\n"
    first = read(tmp_path, text).first
    assert (first.text, first.place and first.place.line) == ("KeyError: 'label'", 20)


def test_the_last_line_of_a_traceback_alone(tmp_path: Path) -> None:
    first = read(
        tmp_path, "RuntimeError: Expected to have finished reduction in the prior iteration before starting\n"
    ).first
    assert first.meaning.code == "GPU112"


def test_a_program_that_its_installer_started_is_named(tmp_path: Path) -> None:
    calls = (
        '  File "C:\\Python37_64\\lib\\runpy.py", line 193, in _run_module_as_main\n'
        '  File "C:\\x\\venv\\Scripts\\gan.exe\\__main__.py", line 7, in <module>\n'
        '  File "/x/envs/a/bin/gan", line 8, in <module>\n'
        '  File "/x/envs/a/lib/python3.8/site-packages/gan/cli.py", line 163, in train\n'
    )
    first = read(tmp_path, f"Traceback (most recent call last):\n{calls}KeyError: 'x'\n").first
    assert first.place.line == 163


def test_a_traceback_after_control_c_is_of_a_program_that_was_stopped(tmp_path: Path) -> None:
    first = read(tmp_path, '^CTraceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f()\n').first
    assert first.role is FailureRole.STOPPED


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("ValueErrorValueError: : no objectno object", "ValueError: no object"),
        ("ssl.libssl.lib..SSLErrorSSLError: : refusedrefused", "ssl.lib.SSLError: refused"),
        ("a.ba.ba.b...NotFoundErrorNotFoundErrorNotFoundError: : : lost", "a.b.NotFoundError: lost"),
        ("ValueErrorValueError", "ValueError"),
        ("ImportError\n\n: ImportErrorno xImportError: : \n: no xno x", "ImportError: no x"),
        ("KeyError'a'KeyError: \n: 'a'", "KeyError: 'a'"),
    ],
)  # fmt: skip
def test_processes_that_write_their_last_lines_at_once(line: str, text: str, tmp_path: Path) -> None:
    frame = '  File "/job/train.py", line 20, in main\n'
    begin = "Traceback (most recent call last):\n"
    first = read(tmp_path, f"{begin}{begin}{frame}{frame}    label()\n{line}\n").first
    assert first.text == text
    assert first.place.line == 20


def test_calls_whose_begin_is_cut_off_are_those_of_a_rank_that_fails_alike(tmp_path: Path) -> None:
    loader = '  File "/opt/site-packages/torch/utils/data/dataloader.py", line {}, in f\n    f()\n'
    below = f"{loader.format(291)}{loader.format(764)}AssertionError\n"
    whole = f'{BEGIN}:\n  File "/job/train.py", line 20, in main\n    for x in loader:\n{below}'
    found = read(tmp_path, prefixed("[rank0]: ", below) + prefixed("[rank1]: ", whole))
    assert (found.first.place and found.first.place.line, found.alike) == (20, (0, 1))


def test_an_error_that_a_program_prints_without_its_type(tmp_path: Path) -> None:
    calls = '  File "/job/train.py", line 20, in main\n    raise ValueError(\n'
    text = f"step 1\n{calls}no label in this batch\n{calls}no label in this batch\n"
    first = read(tmp_path, text).first
    assert (first.text, first.place.line) == ("ValueError: no label in this batch", 20)


@pytest.mark.parametrize(
    "between",
    ["Map:   0%|          | 0/232 [00:00<?, ?", "ERROR: torch.distributed: failed", "train.py: 188: FutureWarning: old",
     "wandb: View run at x"],
)  # fmt: skip
def test_output_between_the_calls_is_no_error(between: str, tmp_path: Path) -> None:
    lines = TRACEBACK.splitlines(keepends=True)
    first = read(tmp_path, "".join([*lines[:2], f"{between}\n", *lines[2:]])).first
    assert first.text == "KeyError: 'label'"


@pytest.mark.parametrize(
    "after",
    ["2024-06-07 20:35:09 - LOGS    - Training took 00:07:53.28", "[I ProcessGroupNCCL.cpp:844] ended normally",
     "/opt/python3.10/resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 400 leaked objects",
     "Process SpawnProcess-1:", "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."],
)  # fmt: skip
def test_what_does_not_belong_to_the_text_of_an_error(after: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{TRACEBACK}{after}\n").first
    assert first.text == "KeyError: 'label'"


def test_a_text_goes_on_where_each_line_has_a_time(tmp_path: Path) -> None:
    text = TRACEBACK.replace("KeyError: 'label'", "ValueError: first\nand second")
    first = read(tmp_path, prefixed("2024-05-07T15:51:09.140Z ", text)).first
    assert first.text == "ValueError: first\nand second"


def test_an_error_that_led_to_the_one_of_a_spawned_rank(tmp_path: Path) -> None:
    """It is logged by the program, too, which does not know its rank."""
    second = TRACEBACK.replace("KeyError: 'label'", "RuntimeError: no batch")
    chain = f"{TRACEBACK}\nDuring handling of the above exception, another exception occurred:\n\n{second}"
    told = f"-- Process 3 terminated with the following error:\n{chain}"
    found = read(tmp_path, f"2024-06-07 20:35:09 - ended\n{chain}2024-06-07 20:35:10 - end\n{told}")
    assert (found.first.by.rank, found.first.summary, found.following) == (3, "RuntimeError: no batch", ())


def test_a_library_that_runs_from_its_repository_is_not_the_program(tmp_path: Path) -> None:
    called = '  File "/opt/NeMo/nemo/core/classes/common.py", line 524, in from_config_dict\n    raise e\n'
    first = read(tmp_path, TRACEBACK.replace("KeyError", f"{called}KeyError")).first
    assert first.place.path == "/job/train.py"


def test_of_a_spawned_rank_an_error_without_calls_led_to_another(tmp_path: Path) -> None:
    text = (
        "-- Process 3 terminated with the following error:\nOSError: [Errno 5] Input/output error\n\n"
        f"During handling of the above exception, another exception occurred:\n\n{TRACEBACK}"
    )
    first = read(tmp_path, text).first
    assert (first.by.rank, first.place.line, first.summary) == (3, 20, "OSError: [Errno 5] Input/output error")


def test_an_example_of_a_library_is_the_program(tmp_path: Path) -> None:
    first = read(tmp_path, TRACEBACK.replace("/job/train.py", "/w/transformers/transformers/examples/run.py")).first
    assert first.place.line == 20


@pytest.mark.parametrize("at", ["/job/", '", l', '",', '", line 2'])
def test_a_call_that_a_terminal_has_broken(at: str, tmp_path: Path) -> None:
    call = '  File "/job/train.py", line 20, in main'
    cut = call.index(at) + len(at)
    text = prefixed("[rank3]: ", TRACEBACK).replace(call, f"{call[:cut]}\n{call[cut:]}")
    first = read(tmp_path, text).first
    assert (first.by.rank, first.text) == (3, "KeyError: 'label'")
    assert (first.place.path, first.place.line) == ("/job/train.py", 20)


@pytest.mark.parametrize("folder", ["lightning/lightning", "lightning/src/lightning"])
def test_a_library_in_the_folder_of_its_sources(folder: str, tmp_path: Path) -> None:
    call = f'  File "/home/u/{folder}/fabric/fabric.py", line 736, in load\n'
    first = read(tmp_path, TRACEBACK.replace("KeyError", f"{call}KeyError")).first
    assert first.place.line == 20


@pytest.mark.parametrize("call", ["", "  "])
def test_a_traceback_all_of_which_is_indented(call: str, tmp_path: Path) -> None:
    """Also where somebody has taken away the blanks before its calls."""
    lines = [f"{call}{line.strip()}" if line.startswith(" ") else line for line in TRACEBACK.splitlines()]
    first = read(tmp_path, prefixed("    ", "\n".join(lines))).first
    assert first.summary == "KeyError: 'label'"


@pytest.mark.parametrize(
    ("inner", "library"),
    [
        ('  File "D:\\anaconda3\\envs\\t\\lib\\os.py", line 675, in __getitem__', "Python"),
        ('  File "path\\venv\\lib\\multiprocessing\\reduction.py", line 60, in dump', "Python"),
        ('  File "/usr/lib/python3.10/os.py", line 225, in makedirs', "Python"),
        ('  File "/opt/conda/lib/python3.11/site-packages/torch/_utils.py", line 769, in reraise', None),
        ('  File "/tmp/__autograph_generated_file_kz5.py", line 9, in if_body_1', None),
        ('  File ".../shutil.py", line 748, in rmtree', "Python"),
        ('  File "mtrand.pyx", line 1126, in mtrand.RandomState.choice', "mtrand"),
        ('  File "/tmp/pip/9f/site-packages/site-packages/torch/serialization.py", line 9, in load', "torch"),
        ('  File "/opt/conda/lib/python3.11/site-packages/foolib/deep/inside.py", line 9, in work', "foolib"),
        ('  File "/work/transformers/src/transformers/trainer.py", line 9, in train', "transformers"),
        ('  File "/job/model.py", line 9, in forward', ""),
    ],
)
def test_the_line_is_of_the_program_and_who_raised_it_is_told(tmp_path: Path, inner: str, library: str | None) -> None:
    text = f'{BEGIN}:\n  File "/job/train.py", line 20, in main\n    work()\n{inner}\n    work()\nValueError: bad\n'
    first = read(tmp_path, text).first
    assert (first.place.path, first.library) == ("/job/model.py" if library == "" else "/job/train.py", library or "")


def test_numbers_that_something_has_put_in_front_of_lines(tmp_path: Path) -> None:
    lines = TRACEBACK.splitlines()
    first = read(tmp_path, "\n".join(f"[{2318 + number}] {line}" for number, line in enumerate(lines))).first
    assert (first.text, first.place and first.place.line) == ("KeyError: 'label'", 20)


def test_an_error_that_stands_above_its_calls(tmp_path: Path) -> None:
    text = 'RuntimeError: Odd thing.\n  File "/job/save.py", line 38, in save\n    torch.save(state, path)\n'
    first = read(tmp_path, text).first
    assert (first.text, first.place and first.place.line) == ("RuntimeError: Odd thing.", 38)


def test_of_tracebacks_that_ran_into_each_other_the_error_is_kept(tmp_path: Path) -> None:
    begin, calls, source, marks, error = TRACEBACK.splitlines()
    mixed = (begin, begin, calls, f"{marks}{calls}", source, f"^^{error}^^: ^^  'label'", error)
    ended = (
        "E0608 19:04:45.3 12 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0"
    )
    launcher = (
        f"{ended} (pid: 13) of binary: /opt/bin/python",
        begin,
        '  File "/opt/site-packages/torch/distributed/launcher/api.py", line 269, in launch_agent',
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    )
    first = read(tmp_path, "\n".join((*mixed, *launcher))).first
    assert (first.summary, first.by.local_rank, first.place and first.place.line) == (error, 0, 20)


def test_a_notebook_names_the_error_before_its_calls(tmp_path: Path) -> None:
    first = read(tmp_path, f"KeyError                 {BEGIN}\n<command-1> in <module>\n----> 2 fit()\n").first
    assert (first.text, first.place and first.place.line) == ("KeyError", 2)


def test_the_error_of_a_replica_whose_traceback_is_missing(tmp_path: Path) -> None:
    raised = "RuntimeError: Caught RuntimeError in replica 3 on device 3.\n\nRuntimeError: CUDA out of memory. Tried to"
    first = read(tmp_path, TRACEBACK.replace("KeyError: 'label'", raised)).first
    assert (first.summary[:32], first.place and first.place.line) == ("RuntimeError: CUDA out of memory", 20)


def test_lines_of_a_logger_that_a_terminal_has_drawn_into_one(tmp_path: Path) -> None:
    front = "2025-10-31 03:11:02,473 - tuner - INFO - [rank3]: "
    first = read(tmp_path, f"{front}{f'     {front}'.join(TRACEBACK.splitlines())}\n").first
    assert (first.by.rank, first.text, first.place and first.place.line) == (3, "KeyError: 'label'", 20)


def test_the_code_of_an_npu_stands_behind_the_error(tmp_path: Path) -> None:
    code = "EJ0001: 2024-05-21-11:57:54.167.645 Failed to initialize the HCCP process."
    error = f"RuntimeError: [ERROR] HCCL error in: x.cpp:64\n[ERROR] 2024-05-21-11:57 (PID:9, RankID:3) fails.\n{code}"
    first = read(tmp_path, TRACEBACK.replace("KeyError: 'label'", error)).first
    assert (first.by.rank, "still in use" in (first.meaning.means if first.meaning else "")) == (3, True)


def test_only_the_first_line_of_an_error_has_the_name_of_its_rank(tmp_path: Path) -> None:
    """What a process writes at once is one line to the launcher; a progress bar in between is of another."""
    error = "[rank1]: RuntimeError: [enforce fail at inline_container.cc:764] .\n"
    first = read(tmp_path, f"{error}    PytorchStreamWriter failed writing file data/0\n  0%|    | 0/8\n").first
    assert (first.by.rank, first.text.splitlines()[1:]) == (1, ["    PytorchStreamWriter failed writing file data/0"])


def test_a_task_that_failed_in_another_process_of_ray(tmp_path: Path) -> None:
    """The error of who waited for it has the calls of the task in its text."""
    waits = TRACEBACK.partition("KeyError")[0].replace("train.py", "driver.py")
    task = TRACEBACK.partition("\n")[2]
    for name in ("", "ray.exceptions.RayTaskError(KeyError): "):
        told = f"{waits}{name}ray::Worker.next() (pid=481, ip=10.5.1.7, repr=<Worker>)\n{task}"
        first = read(tmp_path, told).first
        assert (first.by.tag, first.by.host) == ("pid=481", "10.5.1.7")
        assert first.place.path == "/job/train.py"


def test_a_list_in_which_each_line_is_quoted(tmp_path: Path) -> None:
    lines = [f"- `[rank6]: {line}`\n" for line in (BEGIN + ":", "RuntimeError: NPU out of memory. Tried to allocate")]
    first = read(tmp_path, "".join(lines)).first
    assert (first.by.rank, first.summary[:34]) == (6, "RuntimeError: NPU out of memory. T")


def test_a_rank_that_a_failed_checkpoint_names(tmp_path: Path) -> None:
    """Where nothing says who has printed it, and the log ends in the calls."""
    waits = TRACEBACK.partition("KeyError")[0]
    inner = '  File "/env/lib/python3.12/site-packages/torch/distributed/checkpoint/utils.py", line 1, in reduce\n'
    told = f"{waits}api.CheckpointException: CheckpointException ranks:dict_keys([1])\n{BEGIN}: (RANK 1)\n{inner}"
    first = read(tmp_path, told).first
    assert first is not None
    assert first.by.rank == 1
    assert first.place is not None


@pytest.mark.parametrize(
    "after", ["node1:13:14 [0] NCCL INFO Bootstrap", "(base) me@node1:~/job$ ls", "me@node1:/job# ls"]
)
def test_what_a_terminal_shows_behind_an_error(after: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{TRACEBACK}{after}\n").first
    assert first is not None
    assert first.text == "KeyError: 'label'"
