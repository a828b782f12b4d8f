#!/usr/bin/env bash
# The system packages that the browser tests and the grader's sandbox use. Installs only what is missing, and only with apt; on an
# Ubuntu that keeps ordinary users from making namespaces (23.10 and newer), lets bubblewrap make them by an AppArmor profile.
# A person runs it once:  bash tools/install_system.sh
# With the word paper, and in CI, it also installs TeX for `make pdf` (about 400 MB).
set -u
missing=()
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
command -v bwrap >/dev/null || missing+=(bubblewrap)
[ -n "$(python3 -c 'from ctypes.util import find_library; print(find_library("seccomp") or "")')" ] || missing+=(libseccomp2)
if [ "${1:-}" = paper ] || [[ "${CI:-}" =~ ^(1|true)$ ]]; then
    command -v lualatex >/dev/null && command -v latexmk >/dev/null && kpsewhich titlesec.sty texgyrepagella-math.otf texgyrepagella-regular.otf DejaVuSansMono-Oblique.ttf DroidSansFallbackFull.ttf >/dev/null ||
        missing+=(texlive-luatex texlive-latex-extra latexmk fonts-texgyre fonts-texgyre-math fonts-dejavu-extra fonts-droid-fallback)
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)

if [ ${#missing[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null; then
        echo "please install with your system's package manager: ${missing[*]}" >&2
        exit 1
    fi
    if [ ${#as_root[@]} -gt 0 ] && ! command -v sudo >/dev/null; then
        echo "please install as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    echo "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" fonts-dejavu-core >/dev/null || exit 1
fi

restricted=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
profile=/etc/apparmor.d/bwrap
if [ "$(cat "$restricted" 2>/dev/null)" = 1 ] && [ ! -e "$profile" ] && command -v apparmor_parser >/dev/null &&
    ! bwrap --unshare-user --ro-bind / / true 2>/dev/null; then
    echo "letting bubblewrap make namespaces: $profile"
    "${as_root[@]}" tee "$profile" >/dev/null <<'END' && "${as_root[@]}" apparmor_parser -r "$profile"
abi <abi/4.0>,
include <tunables/global>
profile bwrap /usr/bin/bwrap flags=(unconfined) {
  userns,
}
END
fi
