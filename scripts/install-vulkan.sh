#!/usr/bin/env bash
# Software Vulkan drivers for the WebGPU tests, on Debian and Ubuntu: Mesa's llvmpipe, and SwiftShader, which reads the
# same shaders through another compiler. Nothing is downloaded where they are there already.
#
#   eval "$(scripts/install-vulkan.sh)"     what it did goes to stderr, the environment that tests need to stdout
#
# Where a driver cannot be installed (no apt-get, neither root nor sudo) it says so, and does not require it of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

swiftshader=build/swiftshader
manifest="$swiftshader/vk_swiftshader_icd.json"
installed=()

say() { echo "install-vulkan: $*" >&2; }

sudo=()
if [ "$(id -u)" -ne 0 ]; then sudo=(sudo -n); fi

can_install() {
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here: $1 is skipped"
    return 1
  fi
  if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then
    say "neither root nor sudo: $1 is skipped"
    return 1
  fi
}

# The machine's own archive and key, for the suite of newer packages: Debian 12's Mesa (22.3) lacks what Dawn asks for.
add_backports() { # add_backports CODENAME
  local suite="$1-backports" uri="" key="" file
  if grep -rqs "$suite" /etc/apt/sources.list /etc/apt/sources.list.d; then return; fi
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -e "$file" ] || continue
    # The first stanza that serves the release itself.
    uri=$(awk -v RS= -v suite="$1" '$0 ~ "Suites:[^\n]*[ ]" suite "([ \n]|$)"' "$file" | sed -n 's/^URIs: *//p' | head -1)
    key=$(awk -v RS= -v suite="$1" '$0 ~ "Suites:[^\n]*[ ]" suite "([ \n]|$)"' "$file" | sed -n 's/^Signed-By: *//p' | head -1)
    [ -z "$uri" ] || break
  done
  if [ -z "$uri" ] && [ -e /etc/apt/sources.list ]; then
    uri=$(awk -v suite="$1" '$1 == "deb" { for (i = 2; i < NF; i++) if ($(i + 1) == suite) { print $i; exit } }' /etc/apt/sources.list)
    key=$(sed -n 's/^deb \[.*signed-by=\([^] ]*\).*/\1/p' /etc/apt/sources.list | head -1)
  fi
  if [ -z "$uri" ]; then
    say "apt's sources name no archive for $1, so its backports cannot be added"
    return 1
  fi
  {
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "$suite"
    if [ -n "$key" ]; then printf 'Signed-By: %s\n' "$key"; fi
  } | "${sudo[@]}" tee "/etc/apt/sources.list.d/$suite.sources" >/dev/null
}

install_llvmpipe() {
  local codename version target=()
  version=$(dpkg-query -W -f '${Version}' mesa-vulkan-drivers 2>/dev/null || true)
  if [ -n "$version" ] && dpkg --compare-versions "$version" ge 23; then
    say "llvmpipe is there (mesa-vulkan-drivers $version)"
    installed+=(llvmpipe)
    return
  fi
  can_install llvmpipe || return 0
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  if [ "$codename" = bookworm ]; then
    add_backports "$codename" || return 0
    target=(-t "$codename-backports")
  fi
  say "installing mesa-vulkan-drivers"
  "${sudo[@]}" apt-get update -q >&2
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qy --no-install-recommends "${target[@]}" mesa-vulkan-drivers libvulkan1 >&2
  installed+=(llvmpipe)
}

# SwiftShader has no package of its own; the browser's brings the two files. Only they are kept.
install_swiftshader() {
  if [ -e "$manifest" ]; then
    say "SwiftShader is there ($swiftshader)"
    installed+=(SwiftShader)
    return
  fi
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here: SwiftShader is skipped"
    return
  fi
  if ! apt-cache show chromium-common >/dev/null 2>&1; then
    say "apt knows no package chromium-common: SwiftShader is skipped"
    return
  fi
  local temporary
  temporary=$(mktemp -d)
  # shellcheck disable=SC2064 # the folder's name of now
  trap "rm -rf '$temporary'" EXIT
  say "downloading SwiftShader (package chromium-common)"
  (cd "$temporary" && apt-get download -q chromium-common >&2)
  dpkg-deb -x "$temporary"/chromium-common_*.deb "$temporary/files"
  mkdir -p "$swiftshader"
  cp "$temporary/files/usr/lib/chromium/libvk_swiftshader.so" "$swiftshader"
  # Last: its presence says that the folder is complete.
  cp "$temporary/files/usr/lib/chromium/vk_swiftshader_icd.json" "$swiftshader"
  installed+=(SwiftShader)
}

install_llvmpipe
install_swiftshader

echo "export XDG_RUNTIME_DIR='${XDG_RUNTIME_DIR:-/tmp}'"
if [ -e "$manifest" ]; then echo "export VK_ADD_DRIVER_FILES='$PWD/$manifest'"; fi
if [ "${#installed[@]}" -gt 0 ]; then
  names=$(IFS=, && echo "${installed[*]}")
  echo "export AGENTRL_REQUIRE_WEBGPU='$names'"
fi
