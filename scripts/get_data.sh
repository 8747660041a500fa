#!/usr/bin/env bash
# Fetches public demonstrations into data/. Usage: get_data.sh pusht
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  pusht)  # Chi et al. 2023, MIT licence; 206 human demonstrations, 32 MB
    url=https://diffusion-policy.cs.columbia.edu/data/training/pusht.zip
    target=data/pusht/pusht_cchi_v7_replay.zarr
    ;;
  *)
    echo "usage: $0 pusht" >&2
    exit 2
    ;;
esac

[ -d "$target" ] && { echo "get_data: $target is there"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "get_data: fetching $url"
if ! curl --fail --location --silent --show-error --output "$work/data.zip" "$url"; then
  echo "get_data: $url is out of reach; unpack it by hand so that $target exists" >&2
  exit 1
fi
(cd "$work" && python3 -m zipfile -e data.zip .)
mkdir -p "$(dirname "$target")"
mv "$work/pusht/$(basename "$target")" "$target"
echo "get_data: $target"
