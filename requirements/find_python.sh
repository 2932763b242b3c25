#!/bin/sh
# Prints the newest Python here that the locked packages have wheels for, or says what to install.
# TFX's wheels for 3.12 and 3.13 need glibc 2.39.
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d ' ' -f 2)
versions="3.11"
if [ "$(printf '2.39\n%s\n' "$glibc" | sort -V | head -n 1)" = 2.39 ]; then
  versions="3.13 3.12 3.11"
fi

for version in $versions; do
  for name in "python$version" python3; do
    # Debian's python3 alone can make no environment: that has a package of its own.
    found=$("$name" -c 'import ensurepip, sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    if [ "$found" = "$version" ]; then
      command -v "$name"
      exit
    fi
  done
done
if command -v uv > /dev/null; then # It finds others, and brings one where there is none.
  newest=${versions%% *}
  uv python install --quiet "$newest" && exec uv python find "$newest"
fi

{
  echo "This needs Python $(echo "$versions" | sed 's/ 3.11/ or 3.11/; s/ 3.12/, 3.12/'), with venv, on the PATH;" \
    "here python3 is $(python3 --version 2>/dev/null || echo missing)."
  if [ "$versions" = 3.11 ]; then
    echo "(TFX has newer ones only for glibc 2.39 and later; this system has $glibc.)"
  fi
  echo "Debian, Ubuntu: apt install python3 python3-venv; elsewhere, or for another version:" \
    "https://docs.astral.sh/uv brings Python itself once it is on the PATH."
} >&2
exit 1
