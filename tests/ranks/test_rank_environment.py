import socket

import pytest

from gpudoctor.ranks.loopback import free_port
from tests.support.ranks import rank_environment


def test_a_free_port_can_be_listened_on() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port()))


def test_ranks_of_one_machine_have_local_ranks_of_their_own() -> None:
    environments = [rank_environment(rank, 2, 29500) for rank in range(2)]
    assert [env["RANK"] for env in environments] == ["0", "1"]
    assert [env["LOCAL_RANK"] for env in environments] == ["0", "1"]
    assert {env["GROUP_RANK"] for env in environments} == {"0"}
    assert environments[0]["LOCAL_WORLD_SIZE"] == "2"
    assert (environments[0]["MASTER_ADDR"], environments[0]["MASTER_PORT"]) == ("127.0.0.1", "29500")


@pytest.mark.parametrize(("rank", "local", "node"), [(0, "0", "0"), (1, "1", "0"), (2, "0", "1"), (3, "1", "1")])
def test_ranks_of_two_machines(rank: int, local: str, node: str) -> None:
    environment = rank_environment(rank, 4, 29500, ranks_per_node=2)
    assert (environment["LOCAL_RANK"], environment["GROUP_RANK"]) == (local, node)
    assert (environment["WORLD_SIZE"], environment["LOCAL_WORLD_SIZE"], environment["GROUP_WORLD_SIZE"]) == (
        "4",
        "2",
        "2",
    )
