"""What comes over the connections of other processes, as only the kernel counts it."""

import os
import socket
import subprocess
import sys

import pytest

from gpudoctor.ranks.process_tree import ON_LINUX
from gpudoctor.run.tcp_bytes import received_by

CLIENT = """
import os, socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
left = 100_000
while left:
    left -= len(connection.recv(left))
os.write(1, b"has it")
connection.recv(1)
"""


@pytest.mark.skipif(not ON_LINUX, reason="only Linux hands out the files of other processes")
def test_what_another_process_has_received() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        command = [sys.executable, "-S", "-c", CLIENT, str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            here, _ = server.accept()
            if not received_by(os.getpid()):
                pytest.skip("this container does not hand out the files of processes")
            before = sum(received_by(client.pid).values())
            here.sendall(bytes(100_000))
            assert client.stdout.read(6) == b"has it"
            after = sum(received_by(client.pid).values())
            here.close()
    assert after - before == 100_000
    assert received_by(client.pid) == {}
