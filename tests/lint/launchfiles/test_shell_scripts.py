"""What is understood of shell scripts: which programs they start, with which words."""

import pytest

from gpudoctor.lint.launchfiles.reading import read_launch_file
from gpudoctor.lint.launchfiles.start import ProgramStart
from tests.support.launches import shown


def starts(text: str, name: str = "run.sh") -> list[ProgramStart]:
    return list(read_launch_file(f"/work/{name}", name, text).launches)


def start(text: str, name: str = "run.sh") -> ProgramStart:
    [found] = starts(text, name)
    return found


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("torchrun --nproc_per_node=4 train.py --lr 0.1", "torchrun nproc-per-node=4 | train.py --lr 0.1"),
        ("torchrun --nproc-per-node 4 --standalone train.py", "torchrun nproc-per-node=4 standalone= | train.py"),
        ("torchrun \\\n  --nnodes=1 \\\n  train.py", "torchrun nnodes=1 | train.py"),
        ("python -m torch.distributed.launch --use_env t.py", "torch.distributed.launch use-env= | t.py"),
        ("python3 -u -m torch.distributed.run -m pkg.train a", "torchrun module= | pkg.train a"),
        ("accelerate launch --multi_gpu --num_processes 2 t.py", "accelerate launch multi-gpu= num-processes=2 | t.py"),
        ("deepspeed --include localhost:0,1 t.py --deepspeed", "deepspeed include=localhost:0,1 | t.py --deepspeed"),
        ("exec env A=1 nohup python -u train.py", "python u= | train.py"),
        ("timeout 10 numactl --cpunodebind=0 python t.py", "python | t.py"),
        ("uv run --frozen torchrun t.py", "torchrun | t.py"),
        ("conda run -n env --no-capture-output python t.py", "python | t.py"),
        ("X=t; torchrun $X.py ${X}2.py \"$X\" '$X'", "torchrun | t.py t2.py t $X"),
        ("A='--a 1' && torchrun t.py $A \"$A\"", "torchrun | t.py --a 1 --a 1"),
        ("A='t.py'; B='--b 1'; C=\"torchrun $A $B\"; $C", "torchrun | t.py --b 1"),
        ("$PROFILER torchrun t.py", "torchrun | t.py"),
        ("ssh -p 22 $NODE \"torchrun t.py \\$A\"", "torchrun | t.py $A?"),
        ("ssh node1 torchrun t.py", "torchrun | t.py"),
        ("P=${PYTHON:-python}; $P -m torch.distributed.run t.py", "torchrun | t.py"),
        ("A=(--a 'b c'); A+=(d); torchrun t.py \"${A[@]}\"", "torchrun | t.py --a b c d"),
        ("N=$((2 * 4)); torchrun --nproc_per_node $N t.py", "torchrun nproc-per-node=8 | t.py"),
        ("torchrun t.py $1 \"$@\" $(cat args)", "torchrun | t.py $1? $@? $(cat args)?"),
        ("N=${N:-4}; torchrun --nproc_per_node $N t.py", "torchrun nproc-per-node=$N | t.py"),
        ("L='torchrun --n={{ n }} --max_restarts 1'\nsrun $L t.py", "torchrun n=${n___} max-restarts=1 | t.py"),
        ("go() { torchrun \"$@\" --x $2; }; go t.py 5", "torchrun | t.py 5 --x 5"),
        ("go() { torchrun t.py $1; }", "torchrun | t.py $1?"),
        ("L='torchrun --nnodes=1'; $L t.py", "torchrun nnodes=1 | t.py"),
        ("D=$HOME/x; torchrun --log_dir $D/logs t.py", "torchrun log-dir=$HOME/x/logs | t.py"),
        ("bash -c \"torchrun --nproc_per_node=2 t.py\"", "torchrun nproc-per-node=2 | t.py"),
        ("if test -f x; then N=2; else N=4; fi; torchrun --nnodes $N t.py", "torchrun nnodes=$N | t.py"),
        ("N=2; if [ $# -lt 1 ]; then N=; exit 1; fi; torchrun --nnodes $N t.py", "torchrun nnodes=2 | t.py"),
        ("for n in 1 2; do torchrun t.py $n; done", "torchrun | t.py $n"),
        ("read N; torchrun --nproc_per_node $N t.py", "torchrun nproc-per-node=$N | t.py"),
        ("(N=3); N=2; (N=4); torchrun --nproc_per_node $N t.py", "torchrun nproc-per-node=2 | t.py"),
        ("sbatch <<'EOF'\n#SBATCH --nodes=2\nsrun python t.py\nEOF", "python | t.py"),
        ("N=2; sbatch <<E\nA=\\$(x)\ntorchrun --n=$N t.py \\$A $B \\$@\nE", "torchrun n=2 | t.py $(x)? $B? $@?"),
        ("N=2; if [[ $N -gt 1 ]]; then A=--x; else A=--y; fi; torchrun t.py $A", "torchrun | t.py --x"),
        ("N=2; if (( N > 2 )) || [ \"$N\" = 2 ]; then A=--x; fi; torchrun t.py $A", "torchrun | t.py --x"),
        ("M=a; if [ $M = b ]; then torchrun b.py; elif [ $M = a ]; then torchrun a.py; fi", "torchrun | a.py"),
        ("M=a; [[ $M != a ]] && torchrun b.py; [[ -z $M ]] || torchrun a.py", "torchrun | a.py"),
        ("go() { [ $# -gt 1 ] && shift; torchrun t.py $1; }; go 1 2", "torchrun | t.py 2"),
        ("M=a; case $M in b|c) torchrun b.py;; a) torchrun a.py;; *) torchrun c.py;; esac", "torchrun | a.py"),
        ("M=a1; case $M in b*) torchrun b.py;; a?) torchrun a.py;; *) torchrun c.py;; esac", "torchrun | a.py"),
        ('D=6; if [[ $D != *","* ]]; then torchrun a.py; else torchrun b.py; fi', "torchrun | a.py"),
        ('D=6; if [[ "*" == "$D" ]]; then torchrun a.py; else torchrun b.py; fi', "torchrun | b.py"),
        ("docker exec -it box torchrun t.py", "torchrun | t.py"),
        ("docker run --rm $IMAGE torchrun --n=2 t.py", "torchrun n=2 | t.py"),
        ("apptainer exec $BIND $SIF bash -c 'torchrun t.py'", "torchrun | t.py"),
        ("docker run $MORE image torchrun t.py", "torchrun | t.py"),
        ("tini -s -- torchrun t.py", "torchrun | t.py"),
        ("ray job submit --no-wait -- torchrun t.py", "torchrun | t.py"),
        ("gosu user strace -f torchrun t.py", "torchrun | t.py"),
        ("flock /tmp/l -c 'torchrun t.py'", "torchrun | t.py"),
        ("gcloud compute ssh vm --command='cd x && torchrun t.py'", "torchrun | t.py"),
        ("C='torchrun t.py'; C=\"$C --x\"; eval $C", "torchrun | t.py --x"),
        ("L=\"${1:-torchrun --n=2}\"; $L t.py", "torchrun n=2 | t.py"),
        ("$(which torchrun) t.py", "torchrun | t.py"),
        ("python -m cProfile -o x -m torch.distributed.run t.py", "torchrun | t.py"),
        ("$PYTHON -m torch.distributed.run t.py", "torchrun | t.py"),
        ("coverage run -m torch.distributed.run t.py", "torchrun | t.py"),
        ("ssh node <<E\ntorchrun t.py\nE", "torchrun | t.py"),
        ("salloc -N 1 torchrun t.py", "torchrun | t.py"),
        ("bsub -q gpu -n 4 'torchrun t.py'", "torchrun | t.py"),
        ("cat > job.sh <<E\n#!/bin/bash\ntorchrun t.py\nE", "torchrun | t.py"),
        ("X=0,1; torchrun t.py $(echo $X | awk -F ',' '{print NF}')", "torchrun | t.py 2"),
        ("X=0,1; torchrun t.py $(tr , '\n' <<< $X | wc -l 2> err)", "torchrun | t.py 2"),
        ("torchrun t.py $(seq -s, 0 $((4 - 1))) $(seq 2) $(seq $N)", "torchrun | t.py 0,1,2,3 1 2 $(seq …)?"),
        ("X=0,1; IFS=, read -ra A <<< $X; torchrun t.py ${#A[@]} ${A[1]} ${A[2]}", "torchrun | t.py 2 1 $A?"),
        ("X=0,1; A=(${X//,/ }); C=${X//[^,]/}; torchrun t.py ${#A[@]} $((${#C} + 1))", "torchrun | t.py 2 2"),
        ("F=a/b.c.sh; torchrun t.py ${F##*/} ${F#*/} ${F/b/x}", "torchrun | t.py b.c.sh b.c.sh a/x.c.sh"),
        ("F=a/b.c.sh; torchrun t.py ${F%.*} ${F%%.*} ${F%z}", "torchrun | t.py a/b.c a/b a/b.c.sh"),
        ("X=0,1; torchrun t.py $(echo $X | grep -o , | wc -l) `expr 2 \\* 3`", "torchrun | t.py 1 6"),
        ("torchrun t.py $(echo a b | cut -d' ' -f2) $(echo -n 0,1 | tr -cd , | wc -c)", "torchrun | t.py b 1"),
        # What might be looked for a long time is not known.
        ("F=aaa; torchrun t.py ${F/*a*a*b/} ${F%a}", "torchrun | t.py $F? aa"),
        ("X=0,1; torchrun t.py $(python -c \"print(len('$X'.split(',')))\")", "torchrun | t.py 2"),
        ('declare -A A=([a]="0,1" [b]=2); K=b; torchrun t.py ${A[a]} ${A[$K]} ${A[c]}', "torchrun | t.py 0,1 2 $A?"),
        ("torchrun t.py $(python3 -c 'import os; n = 4; print(2 * n)')", "torchrun | t.py 8"),
        ("torchrun t.py $(python -c 'print(n)')", "torchrun | t.py $(python -c print(n))?"),
        ("torchrun t.py $(cat x | wc -l)", "torchrun | t.py $(cat x | wc -l)?"),
        ("P=$(f); torchrun t.py --p=${P:-1} --q=${Q:-1}", "torchrun | t.py --p=$P --q=$Q"),
        ("kubectl apply -f - <<E\napiVersion: v1\ncontainers: [{command: [torchrun, t.py]}]\nE", "torchrun | t.py"),
    ],
)  # fmt: skip
def test_a_command_is_read_as_the_shell_reads_it(command: str, expected: str) -> None:
    assert shown(start(command)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "echo torchrun train.py",
        "# torchrun train.py",
        "cat <<EOF\ntorchrun train.py\nEOF",
        "pip install accelerate deepspeed",
        "python -c 'print(1)'",
        "which torchrun",
        "LAUNCH='torchrun train.py'",
        "grep -r torchrun .",
        "torchrun(",
        "python $(which launcher) --nproc 2 train.py",
    ],
)
def test_what_is_no_start(text: str) -> None:
    assert not [each for each in starts(text) if each.script is not None]


def test_variables_are_told_where_they_are_exported() -> None:
    found = start("export A=1\nB=2\nC=3 D=$B torchrun t.py\nexport E=5")
    assert {name: each.word.text for name, each in found.environment.items()} == {"A": "1", "C": "3", "D": "2"}


def test_places_are_those_of_the_file() -> None:
    found = start('\n\nX=1 srun bash -c "\n  torchrun --nproc_per_node 4 \\\n    train.py --a b"\n')
    assert str(found.at) == "run.sh:4:3"
    assert (str(found.script.at), found.script.at.end_column) == ("run.sh:5:5", 13)


def test_what_each_node_fills_in_is_told_from_what_is_filled_in_before() -> None:
    before, each = starts(
        'srun torchrun --node_rank=$SLURM_NODEID t.py\nsrun bash -c "torchrun --node_rank=\\$SLURM_NODEID t.py"'
    )
    assert (before.per_node, each.per_node) == (False, True)
    assert all(found.options["node-rank"].value.holes[0].variable == "SLURM_NODEID" for found in (before, each))  # type: ignore[union-attr]


def test_a_batch_file_says_how_often_it_is_started() -> None:
    head = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4 # four\n\n"
    assert start(f"{head}srun python t.py").tasks_per_node == 4
    assert start(f"{head}srun --ntasks-per-node=1 torchrun t.py").tasks_per_node == 1
    assert start(f"{head}srun -n 2 torchrun t.py").tasks_per_node == 1
    assert start(f"{head}srun $MORE torchrun t.py").slurm_nodes == 2
    assert start(f"{head}torchrun t.py").tasks_per_node == 1
    # Nobody has asked for more than one machine.
    alone = "#!/bin/bash\n#SBATCH --ntasks-per-node=1\n"
    assert start(f"{alone}srun python t.py").world_size == 1
    assert start(f"{alone}#SBATCH --ntasks=4\nsrun python t.py").world_size is None
    # Another part of the job asks for other machines, and both start this together.
    parts = start(f"{head}#SBATCH hetjob\n#SBATCH -N 3\nsrun --het-group=0,1 torchrun t.py")
    assert (parts.slurm_nodes, parts.tasks_per_node) == (None, None)
    assert start(f"{head}#SBATCH hetjob\n#SBATCH -N 3\nsrun torchrun t.py").slurm_nodes == 2
    # Behind the first command SLURM reads no more of them.
    assert start("#!/bin/bash\ntrue\n#SBATCH --ntasks-per-node=4\nsrun python t.py").tasks_per_node is None


def test_a_batch_file_may_stand_in_a_script() -> None:
    found = start("N=4\nsbatch -N 2 <<E\n#!/bin/sh\n#SBATCH -J a$N\n#SBATCH --gres=gpu:$N\nsrun torchrun t$N.py\nE")
    assert {name: each.text for name, each in found.directives.items()} == {
        "nodes": "2",
        "job-name": "a4",
        "gres": "gpu:4",
    }
    assert (str(found.at), str(found.directives["gres"].at)) == ("run.sh:6:1", "run.sh:5:1")


def test_what_is_started_aside_and_again() -> None:
    first, second, third = starts("a=1\npython a.py & \nwhile true; do python b.py & done\nwait\npython c.py")
    assert (first.background, first.looped) == (True, False)
    assert (second.background, second.looped) == (True, True)
    assert (third.background, third.waits > first.waits) == (False, True)


def test_a_loop_that_waits_starts_one_at_a_time() -> None:
    found = start("for i in 1 2; do\n python a.py &\n wait\ndone")
    assert not found.looped


def test_folders_are_followed() -> None:
    assert start("cd src && python t.py").folder == "src"
    assert start("cd src; cd more; python t.py").folder == "src/more"
    assert start('cd "$1"; python t.py').folder is None


def test_numbers_of_processes() -> None:
    assert start("torchrun t.py").processes == 1
    assert start("torchrun --nproc_per_node=gpu t.py").processes is None
    assert start("torchrun $MORE t.py").processes is None
    assert start("PET_NPROC_PER_NODE=4 torchrun t.py").processes == 4
    assert start("PET_NPROC_PER_NODE=$MORE torchrun t.py").processes is None
    assert start("accelerate launch --num_machines 2 --num_processes 8 t.py").processes == 4
    assert start("deepspeed --include localhost:0,3 t.py").processes == 2
    assert start("torchrun --nnodes=1:4 t.py").nodes == 4


@pytest.mark.slow
def test_a_large_or_broken_script_ends() -> None:
    assert starts("f() { f; f; }\nf\n" * 50) == []
    assert starts("$(" * 500) == []
    assert starts("A=$A$A$A$A\n" * 40 + "torchrun t.py $A") != []
    assert starts("x\n" * 300_000) == []
    assert starts("if a; then\n" * 400 + "torchrun t.py" + "\nfi" * 400) == []
