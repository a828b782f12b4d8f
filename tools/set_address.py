"""Gives the book another address, for a fork of your own:

    python tools/set_address.py https://github.com/YOU/BOOK [--site https://YOU.github.io/BOOK/]

Badges, install lines, links and the citation follow `_config.yml`, where the address stands; this
writes it there and into every file that repeats it. No notebook runs again.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from bookbuild.address import Address, read_address

REPOSITORY = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


def new_address(old: Address, repository: str, site: str | None) -> Address:
    """The address that the arguments mean; without a site the one that GitHub serves.

    Raises:
        ValueError: not the address of a repository on GitHub, which is where Colab reads from, or
            not that of a website.
    """
    found = REPOSITORY.fullmatch(repository)
    if found is None:
        raise ValueError(
            f"repository must look like https://github.com/OWNER/NAME, got {repository!r}"
        )
    owner, name = found.groups()
    site = site or f"https://{owner.lower()}.github.io/{name}/"
    if not re.fullmatch(r"https?://[^\s/]+(/[^\s?#]*)?", site):
        raise ValueError(f"site must look like https://HOST/PATH/, got {site!r}")
    return old._replace(
        repository=f"https://github.com/{owner}/{name}", site=site.rstrip("/") + "/"
    )


def replacements(old: Address, new: Address) -> list[tuple[str, str]]:
    """What stands for what: the longer first."""
    on_colab = (address.on_colab("").partition("/blob/")[0] for address in (old, new))
    pairs = [
        tuple(on_colab),
        (old.site.rstrip("/"), new.site.rstrip("/")),
        (old.repository, new.repository),
    ]
    # what one types after `git clone`, in the README and on the front page
    pairs += [tuple(f"\ncd {one.repository.rpartition('/')[2]}\n" for one in (old, new))]
    return [(before, after) for before, after in pairs if before != after]


def rewrite(root: Path, pairs: list[tuple[str, str]]) -> list[Path]:
    """Put the new address into every file under version control; returns those that changed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    changed = []
    for path in (root / name for name in listed.stdout.split("\0") if name):
        try:
            text = new = path.read_bytes().decode("utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        for before, after in pairs:
            # the name of another repository may begin with the same letters
            end = "" if before.endswith("\n") else r"(?![\w-])"
            new = re.sub(re.escape(before) + end, lambda _, a=after: a, new)
        if new != text:
            path.write_bytes(new.encode("utf-8"))
            changed.append(path)
    return changed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repository", help="https://github.com/OWNER/NAME")
    parser.add_argument("--site", help="where the website is (default: OWNER.github.io/NAME)")
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[1], help=argparse.SUPPRESS
    )
    options = parser.parse_args(argv)
    old = read_address(options.root)
    try:
        new = new_address(old, options.repository, options.site)
    except ValueError as error:
        parser.error(str(error))
    changed = rewrite(options.root, replacements(old, new))
    print(f"{old.repository} is {new.repository} now, {old.site} is {new.site}:")
    print(f"{len(changed)} files changed; look at them with git diff, and commit them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
