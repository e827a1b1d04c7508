"""Names that are bound on one branch only, and used behind both: who gets on has taken that branch."""

import pytest

HEAD = """
        import argparse
        args = argparse.ArgumentParser().parse_args()
        """
ENDING = {
    "in a module": f"""{HEAD}
        if args.chunks:
            sampler, loader = 1, 2
        else:
            loader = 3
        reveal(loader)  #: 2 if args.chunks | 3 if not (args.chunks)
        print(sampler)
        reveal(loader)  #: 2
        reveal()  #: always
        """,
    "in a function, by a test of several parts": f"""{HEAD}
        def train():
            if len(args.chunks) == 2 and args.chunks[0] < 5:
                sampler, loader = "sharded", "by rank"
            else:
                loader = "whole"
            for epoch in range(3):
                print(sampler)
                reveal(loader)  #: 'by rank'
        train()
        """,
    "where the test failed it surely ends": f"""{HEAD}
        def train():
            if args.chunks:
                sampler = 1
            else:
                loader = 3
            if not args.chunks:
                sampler + 1
                reveal(0)  #: never
            reveal(1)  #: 1
        train()
        """,
    "the error has handlers": f"""{HEAD}
        def train():
            if args.chunks:
                sampler = 1
            else:
                loader = 3
            if not args.chunks:
                try:
                    sampler + 1
                except KeyError:
                    reveal(0)  #: never
                except NameError:
                    reveal(1)  #: 1
        train()
        """,
}
GOING_ON = {
    "an earlier round may have bound it": f"""{HEAD}
        for path in args.paths:
            if args.chunks:
                sampler, loader = 1, 2
            else:
                loader = 3
            print(sampler)
            reveal(loader)  #: 2 if args.chunks | 3 if not (args.chunks)
        """,
    "a block may have bound it before it failed": f"""{HEAD}
        try:
            if args.chunks:
                sampler = 1
            else:
                loader = args.make()
        except ValueError:
            loader = 3
        print(loader)
        reveal(sampler)  #: 1 if args.chunks and not (an exception is caught)
        """,
    "a star import may have brought it": f"""{HEAD}
        from company import *
        if args.chunks:
            sampler, loader = 1, 2
        else:
            loader = 3
        print(sampler)
        reveal(loader)  #: 2 if args.chunks | 3 if not (args.chunks)
        """,
    "code that writes to the names of the module": f"""{HEAD}
        globals().update(sampler=1)
        if args.chunks:
            sampler, loader = 1, 2
        else:
            loader = 3
        print(sampler)
        reveal(loader)  #: 2 if args.chunks | 3 if not (args.chunks)
        """,
    "another function binds it": f"""{HEAD}
        def choose():
            global sampler
            sampler = args.choice
        if args.chunks:
            sampler, loader = 1, 2
        else:
            choose() if args.other else None
            loader = 3
        print(sampler)
        reveal(loader)  #: 2 if args.chunks | 3 if not (args.chunks)
        """,
    "a builtin has the name": f"""{HEAD}
        if args.chunks:
            print, loader = len, 2
        else:
            loader = 3
        print(loader)
        reveal(loader)  #: 2 if args.chunks | 3 if not (args.chunks)
        """,
    "ranks may ask once more in other words": """
        import torch.distributed as dist
        rank = dist.get_rank()
        if rank == 0:
            writer, folder = 1, 2
        else:
            folder = 3
        def log():
            print(writer)
        print(writer)
        reveal(folder)  #: 2 if rank == 0 | 3 if not (rank == 0)
        """,
}


@pytest.mark.parametrize("source", ENDING.values(), ids=ENDING)
def test_a_path_ends_where_a_name_is_not_bound(paper, source: str):
    paper(source)


@pytest.mark.parametrize("source", GOING_ON.values(), ids=GOING_ON)
def test_what_may_have_bound_it_leaves_the_path_open(paper, source: str):
    paper(source)
