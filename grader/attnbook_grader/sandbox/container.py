"""The command line of a container that student code runs in."""

from __future__ import annotations

from .process import PROCESSORS
from .visible import HOME, INSIDE, PACKAGES, hidden, stand_in, variables

__all__ = ["container_command"]


def container_command(engine, image, name, limits, inside):
    size = f"size={limits.disk}m"
    where = "/opt/attnbook"
    command = [
        engine,
        "run",
        "--rm",
        "--interactive",
        "--name",
        name,
        "--network",
        "none",
        "--read-only",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--pids-limit",
        str(limits.processes + 64),
        "--memory",
        f"{limits.memory}m",
        "--memory-swap",
        f"{limits.memory}m",
        "--cpus",
        str(PROCESSORS),
        "--tmpfs",
        f"/tmp:{size}",
        "--tmpfs",
        f"{HOME}:{size},mode=1777",
        "--workdir",
        HOME,
    ]
    for package in PACKAGES:
        command += ["--volume", f"{package}:{where}/{package.name}:ro"]
        for path in hidden(package):
            inner = f"{where}/{package.name}/{path.name}"
            command += ["--volume", f"{stand_in(path)}:{inner}:ro"]
    for variable, value in variables(where, HOME).items():
        if variable != "PATH":
            command += ["--env", f"{variable}={value}"]
    return [*command, image, "python3", *INSIDE, inside]
