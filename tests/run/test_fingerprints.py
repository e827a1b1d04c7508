"""What a run looks at stays as the program has made it."""

from tests.support.installs import require_torch

require_torch()


def test_a_batch_can_be_resized_behind_its_name() -> None:
    import torch

    from gpudoctor.run.instruments.fingerprints import print_of

    batch = torch.arange(6.0)
    assert print_of(batch) == print_of(batch.clone())
    batch.untyped_storage().resize_(0)
    assert not batch.untyped_storage().size()
