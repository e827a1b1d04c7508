"""Downloads: what fetches files, where to, and what lets one process in after the other."""

from gpudoctor.lint.events.files import Download


def test_data_sets_and_functions_that_fetch_files(paper):
    found = paper(
        """
        import argparse
        from urllib.request import urlretrieve
        from torchvision import datasets
        args = argparse.ArgumentParser().parse_args()
        datasets.MNIST("a", download=True)
        datasets.MNIST("b", download=args.download)
        datasets.MNIST("c")
        urlretrieve("http://localhost/x", "d")
        urlretrieve("http://localhost/x")
        """
    )
    assert [repr(event.path) for event in found.events(Download)] == ["'a'", "'d'"]


def test_locks_are_seen_around_them(paper):
    found = paper(
        """
        from accelerate import Accelerator
        from company import first_come_first_served
        from filelock import FileLock
        from torchvision import datasets
        accelerator = Accelerator()
        with FileLock("lock"):
            datasets.MNIST("a", download=True)
        with accelerator.main_process_first():
            datasets.MNIST("a", download=True)
        with first_come_first_served():
            datasets.MNIST("a", download=True)
        """
    )
    assert [event.context.contexts for event in found.events(Download)] == [
        ("lock",),
        ("main_process_first",),
        ("unread",),
    ]
