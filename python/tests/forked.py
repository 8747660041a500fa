"""Objects with threads in a forked process, which has none of the threads."""

import os
import signal


def errors_in_a_fork(kind, *calls):
    """The messages of the errors of this kind that the calls raise in a forked process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that waits forever
        messages = []
        for call in calls:
            try:
                call()
            except kind as error:
                messages.append(str(error))
        os.write(write, "\n".join(messages).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.close(write)
    with open(read) as messages:
        return messages.read().splitlines()
