"""Hands a request to the process that has the function, and waits for it."""

import json
import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    with connection.makefile("rw", encoding="utf-8") as stream:
        stream.write(json.dumps(sys.argv[2]) + "\n")
        stream.flush()
        said = stream.readline()
failure = json.loads(said) if said else "the process with the function ended"
if failure:
    sys.exit(failure)
