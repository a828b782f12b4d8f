"""The command line of a container that student code runs in."""

from __future__ import annotations

from .process import PROCESSORS
from .visible import HOME, INSIDE, PACKAGES, hidden, stand_in, variables

__all__ = ["container_command"]


def container_command(engine, image, name, limits, inside):
    size = f"size={limits.disk}m"
    where = "/opt/attnbook"
    options = (
        f"--rm --interactive --name {name} --network none --read-only --cap-drop ALL "
        f"--security-opt no-new-privileges --pids-limit {limits.processes + 64} "
        f"--memory {limits.memory}m --memory-swap {limits.memory}m --cpus {PROCESSORS} "
        f"--tmpfs /tmp:{size} --tmpfs {HOME}:{size},mode=1777 --workdir {HOME}"
    )
    command = [engine, "run", *options.split()]
    for package in PACKAGES:
        command += ["--volume", f"{package}:{where}/{package.name}:ro"]
        for path in hidden(package):
            inner = f"{where}/{package.name}/{path.name}"
            command += ["--volume", f"{stand_in(path)}:{inner}:ro"]
    for variable, value in variables(where, HOME).items():
        if variable != "PATH":
            command += ["--env", f"{variable}={value}"]
    return [*command, image, "python3", *INSIDE, inside]
