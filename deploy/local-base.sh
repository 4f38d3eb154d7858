#!/usr/bin/env bash
# What deploy/base.Containerfile makes, but out of this Debian machine's own packages, Node and node_modules, so that no
# registry is asked:
#
#   deploy/local-base.sh | podman import --change 'ENTRYPOINT ["agentrl"]' --change USER=node - agentrl
#   podman build -t agentrl-controller -f deploy/controller.Containerfile .
#
# It has no package manager: the images that install an engine (dbbench, os) need base.Containerfile.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
scripts/make-os-image.sh | tar --extract --directory="$root"

node=$(node --print process.execPath)
install -D "$node" "$root/usr/bin/node"
# The libraries of Node that a small system lacks, where its loader looks for them.
ldd "$node" | grep -o '/[^ )]*' | while read -r library; do
  if [ ! -e "$root$library" ]; then install -D "$(realpath "$library")" "$root$library"; fi
done
echo "node:x:1000:1000::/tmp:/bin/sh" >>"$root/etc/passwd"
echo "node:x:1000:" >>"$root/etc/group"

program="$root/opt/agentrl"
mkdir -p "$program/deploy" "$root/usr/local/bin"
cp -R bin src envs package.json "$program"
cp deploy/health.mjs "$program/deploy"
# Not the packages for development and for computing, and no types and maps: they are two thirds of all.
tar --create --exclude='*.d.'{ts,mts,cts} --exclude='*.map' --exclude='*.md' \
  --exclude='node_modules/'{webgpu,@biomejs,typescript,vite,vitest,@vitest,@rolldown,'lightningcss*',@types} \
  --exclude='node_modules/'{node-gyp,cmake-js,fast-check,node-addon-api} \
  node_modules | tar --extract --directory="$program"
ln -s /opt/agentrl/bin/agentrl.js "$root/usr/local/bin/agentrl"
tar --create --numeric-owner --owner=0 --group=0 --directory="$root" .
