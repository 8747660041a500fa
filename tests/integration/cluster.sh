#!/usr/bin/env bash
# The files in examples/cluster start shards that merge to the evaluation of one process. Engines that are not here are skipped by name.
# Usage: cluster.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
root=$(readlink -f "$2/..")
dp_bench=$1
cluster=$root/examples/cluster
enter_scratch_folder
train_briefly "$dp_bench" "$2" trained
"$dp_bench" eval --checkpoint trained --output whole env_runner.n_test=60 >whole.txt 2>&1 || fail "$(cat whole.txt)"
mkdir bin
ln -s "$dp_bench" bin/dp_bench  # the examples call it by its name
export PATH=$work/bin:$PATH

expect_whole() {  # expect_whole FOLDER
  cmp whole/episodes.jsonl "$1/episodes.jsonl" || fail "$1 differs from the evaluation of one process"
}

echo "ssh"
printf '#!/bin/sh\nshift\nexec sh -c "$1"\n' >remote_shell
chmod +x remote_shell
REMOTE_SHELL=$work/remote_shell N_TEST=60 "$cluster/ssh_loop.sh" "$work/trained" "$work/by_ssh" a b >ssh.txt 2>&1 || fail "$(cat ssh.txt)"
expect_whole by_ssh

python_with() {  # python_with MODULE: an interpreter that has it
  local python
  for python in ${DPB_CLUSTER_PYTHON:-} "$root/.venv/bin/python" python3; do
    if "$python" -c "import $1" 2>/dev/null; then
      echo "$python"
      return
    fi
  done
}
for engine in submitit ray; do
  python=$(python_with $engine)
  if [ -z "$python" ]; then
    echo "SKIPPED: no Python has $engine"
    continue
  fi
  echo "$engine"
  "$python" "$cluster/${engine}_eval.py" "$work/trained" "$work/by_$engine" 2 local >"$engine.txt" 2>&1 || fail "$(tail -30 "$engine.txt")"
  expect_whole "by_$engine"
done

echo "the files of the other engines can be read"
bash -n "$cluster/slurm_array.sh"
python3 - "$cluster/kubernetes_job.yaml" <<'PYTHON'
import sys

text = open(sys.argv[1]).read()
assert "\t" not in text and text.count("completions: 20") == 1 and 'value: "20"' in text, "completions and JOB_COMPLETIONS differ"
try:
    import yaml
except ImportError:
    sys.exit()
job = yaml.safe_load(text)
assert job["spec"]["completionMode"] == "Indexed"
environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
assert int(environment[0]["value"]) == job["spec"]["completions"]
PYTHON
