#!/usr/bin/env bash
# Policies in Python that the policy `remote` starts: the same episodes twice; what happens when one raises, exits, hangs or
# does not start; none outlives the program. They need numpy, websockets and msgpack, which the first run downloads into a
# virtual environment in the build folder.
# Usage: own_policy.sh <dp_bench program> <configs folder> <build folder>
set -euo pipefail
root=$(dirname "$(readlink -f "$0")")
source "$root/expect.sh"
dp_bench=$1
configs=$2
python=$(readlink -f "$root/../../python")
venv=$3/python_policies
enter_scratch_folder

packages="websockets==17.4 msgpack==1.2.4 numpy==1.26.4"
if [ "$(cat "$venv/installed.txt" 2>/dev/null)" != "$packages" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv" 2>pip.txt || { echo "SKIPPED: python3 has no venv"; exit 77; }
  # shellcheck disable=SC2086
  if ! "$venv/bin/pip" install --quiet --disable-pip-version-check $packages >pip.txt 2>&1; then
    echo "SKIPPED: pip cannot install $packages: $(grep -m1 ERROR pip.txt)"
    exit 77
  fi
  echo "$packages" >"$venv/installed.txt"
fi

# The package without its environments, which need a compiler: only what serves policies.
mkdir dp_bench
cp "$python/src/dp_bench/serving.py" "$python/src/dp_bench/errors.py" dp_bench
echo "from dp_bench.serving import serve_policy" >dp_bench/__init__.py
export PYTHONPATH=$PWD PATH=$venv/bin:$PATH

runner=(env_runner.n_train=0 env_runner.n_test=3 env_runner.n_videos=0)
evaluate() {  # evaluate OUTPUT COMMAND OPTION...
  "$dp_bench" eval --policy remote --env pusht --config-dir "$configs" --output "$1" "policy.params.command=$2" "${runner[@]}" \
    "${@:3}" >"$1.txt" 2>&1
}
expect_faulty() {  # expect_faulty OUTPUT COMMAND OPTION...: the evaluation of a policy that breaks
  local status=0
  evaluate "$@" || status=$?
  [ $status -eq 5 ] || fail "$1 ended with $status: $(cat "$1.txt")"
}
reasons() { python3 -c 'import json, sys
for line in open(sys.argv[1]): print(json.loads(line)["failure_reason"])' "$1/episodes.jsonl"; }
hashes() { python3 -c 'import json, sys
for line in open(sys.argv[1]): row = json.loads(line); print(row["seed"], row["score"], row["trace_hash"])' "$1/episodes.jsonl"; }
no_process() {  # no_process FILE: none runs it any more
  for ((i = 0; i < 50; i++)); do
    pgrep -f "$work/$1" >/dev/null || return 0
    sleep 0.1
  done
  fail "a process still runs $1"
}

echo "the scripted policy plays the same episodes twice"
cp "$python/examples/policy_scripted.py" scripted.py
evaluate one "python $work/scripted.py" || fail "$(cat one.txt)"
no_process scripted.py
evaluate two "[\"python\", \"$work/scripted.py\"]" env_runner.n_envs=1 || fail "$(cat two.txt)"
cmp <(hashes one) <(hashes two) || fail "other episodes: $(hashes one) $(hashes two)"
grep -q 'scripted.py' one/manifest.json || fail "$(cat one/manifest.json)"
"$dp_bench" compare one two >compare.txt 2>&1 || fail "$(cat compare.txt)"
expect_exit 0 "" "$dp_bench" replay --run one --episode 0 --output replayed

evaluate arms "python $work/scripted.py" --perturb null || fail "$(cat arms.txt)"
cmp <(hashes one) <(hashes arms/perturbations/null) || fail "null changed an episode: $(cat arms/perturbations.json)"

echo "a policy with memory has an object for each episode"
cat >memory.py <<'PYTHON'
import dp_bench

class Policy:
    def reset(self, seed):
        self.n = 0
    def act(self, observation):
        assert observation["agent_pos"].shape == (2, 2), observation["agent_pos"].shape
        self.n += 1
        return [[10.0 * self.n, 100.0]] * 8

dp_bench.serve_policy(Policy)
PYTHON
evaluate memory "python memory.py" || fail "$(cat memory.txt)"
evaluate memory_alone "python memory.py" env_runner.n_envs=1 || fail "$(cat memory_alone.txt)"
cmp <(hashes memory) <(hashes memory_alone) || fail "episodes share an object: $(hashes memory) $(hashes memory_alone)"
evaluate short_memory "python memory.py" policy.params.n_connections=1 || fail "$(cat short_memory.txt)"
cmp <(hashes memory) <(hashes short_memory) || fail "episodes share an object: $(hashes short_memory)"
expect_exit 2 "the splits share seeds (train 0 to 2, test 0 to 2)" "$dp_bench" eval --policy remote --env pusht --config-dir "$configs" \
  --output shared "policy.params.command=python memory.py" env_runner.n_train=3 env_runner.n_test=3 env_runner.test_start_seed=0
sed 's/def reset.*/def __init__(self):/; s/def act/def reset(self, seed):\n        pass\n    &/' memory.py >made.py
evaluate made "python made.py" env_runner.n_envs=1 || fail "$(cat made.txt)"
cmp <(hashes memory) <(hashes made) || fail "an object that is set up once plays several episodes: $(hashes made)"

echo "an object plays one episode after the other, and is not asked about two for its certificate"
sed 's/serve_policy(Policy)/serve_policy(Policy())/' memory.py >object.py
evaluate object "python object.py" env_runner.n_envs=1 || fail "$(cat object.txt)"
cmp <(hashes memory) <(hashes object) || fail "other episodes than those of its class: $(hashes object)"
! grep -qE "Traceback|without an answer" object.txt || fail "$(cat object.txt)"
grep -q "the policy is a function of (observation, seed): verified" object.txt || fail "$(cat object.txt)"

echo "windows also have their first dimension if they are one observation"
sed 's/(2, 2)/(1, 2)/' memory.py >window.py
evaluate window "python window.py" n_obs_steps=1 || fail "$(cat window.txt)"

echo "a policy that raises is a policy_error, with its traceback"
cat >raises.py <<'PYTHON'
import dp_bench

def policy(observation, *, step):
    if step >= 3:
        raise ArithmeticError(f"no plan for step {step}")
    return [[100.0, 100.0]] * 8

dp_bench.serve_policy(policy)
PYTHON
expect_faulty raises "python raises.py" n_action_steps=1
[ "$(reasons raises | grep -c "policy_error: ArithmeticError: no plan for step 3")" -eq 3 ] || fail "$(reasons raises)"
grep -q 'raise ArithmeticError' raises.txt || fail "$(cat raises.txt)"

sed 's/step >= 3/step >= 0/' raises.py >raises_at_once.py
expect_faulty raises_at_once "python raises_at_once.py" n_action_steps=1
grep -q "its episodes are played without a certificate" raises_at_once.txt || fail "$(cat raises_at_once.txt)"
[ "$(reasons raises_at_once | grep -c "policy_error: ArithmeticError: no plan for step 0")" -eq 3 ] || fail "$(reasons raises_at_once)"

sed 's/raise ArithmeticError(.*/sys.exit("no weights")/; s/^import dp_bench/&, sys/' raises.py >leaves.py
expect_faulty leaves "python leaves.py" n_action_steps=1
[ "$(reasons leaves | grep -c "policy_error: SystemExit: no weights")" -eq 3 ] || fail "$(reasons leaves)"

echo "a class that cannot be made says why"
sed 's/def reset(self, seed):/def __init__(self):\n        raise FileNotFoundError("weights.pt")\n    &/' memory.py >unmade.py
expect_faulty unmade "python unmade.py"
grep -q "policy_error: FileNotFoundError: weights.pt" unmade.txt || fail "$(cat unmade.txt)"

echo "one that ends is started again"
cat >exits.py <<'PYTHON'
import os, pathlib, sys
import dp_bench

def policy(observation, *, step):
    marker = pathlib.Path(sys.argv[1])
    if step == 8 and (len(sys.argv) > 2 or not marker.exists()):
        marker.touch()
        print("out of luck", file=sys.stderr, flush=True)
        os._exit(3)
    return [[100.0, 100.0]] * 8

dp_bench.serve_policy(policy)
PYTHON
evaluate once "python exits.py marker" || fail "$(cat once.txt)"
grep -q "exited with code 3; it is started again" once.txt || fail "$(cat once.txt)"
touch marker
evaluate never "python exits.py marker" || fail "$(cat never.txt)"
cmp <(hashes once) <(hashes never) || fail "other episodes after a restart"
expect_faulty always "python exits.py marker always" policy.params.n_retries=1
[ "$(reasons always | grep -c "policy_disconnected: .*its program exited with code 3: out of luck")" -eq 3 ] || fail "$(reasons always)"

echo "one that cannot be started again stops the evaluation, and no episode fails"
cat >starts_once.py <<'PYTHON'
import os, pathlib
import dp_bench

marker = pathlib.Path("started")
if marker.exists():
    raise SystemExit("no second start")

def policy(observation, *, step):
    marker.touch()
    if step == 8:
        os._exit(3)
    return [[100.0, 100.0]] * 8

dp_bench.serve_policy(policy)
PYTHON
status=0
evaluate gone "python starts_once.py" || status=$?
[ $status -eq 75 ] || fail "it ended with $status: $(cat gone.txt)"
grep -q "the policy server has gone" gone.txt && grep -q "no second start" gone.txt || fail "$(cat gone.txt)"
[ ! -e gone/episodes.jsonl ] || fail "it has a result: $(cat gone/episodes.jsonl)"

echo "a suite in which episodes fail says so with its exit code"
cat >suite.json <<JSON
{"name": "raising", "policies": [{"policy": "remote", "trained": false, "overrides": ["policy.params.command=python $work/raises.py"]}],
 "tasks": [{"env": "pusht"}],
 "overrides": ["env_runner.n_train=0", "env_runner.n_test=2", "env_runner.n_videos=0", "n_action_steps=1"]}
JSON
expect_exit 5 "episodes that broke and count as not successful: 2" "$dp_bench" suite --config-dir "$configs" suite.json --output suite

echo "one that does not start says why"
expect_start_error() {  # expect_start_error TEXT COMMAND OPTION...
  expect_exit 2 "$1" "$dp_bench" eval --policy remote --env pusht --config-dir "$configs" --output none \
    "policy.params.command=$2" "${runner[@]}" "${@:3}"
}
echo 'import no_such_module' >broken.py
expect_start_error "No module named 'no_such_module'" "python broken.py"
expect_start_error "exited with code 1 before it told its port" "python broken.py"
expect_start_error "not found" "no_such_program my_policy.py"
printf 'import time\nprint("loading weights")\ntime.sleep(600)\n' >hangs.py
begin=$SECONDS
expect_start_error "did not tell its port within 2 s" "python $work/hangs.py" policy.params.start_timeout=2
[ $((SECONDS - begin)) -le 20 ] || fail "it took $((SECONDS - begin)) s"
grep -q "loading weights" out.txt || fail "$(cat out.txt)"
no_process hangs.py
expect_start_error "found both" "python broken.py" policy.params.url=ws://127.0.0.1:1

echo "no program outlives dp_bench"
"$dp_bench" eval --policy remote --env pusht --config-dir "$configs" --output killed "policy.params.command=python $work/scripted.py" \
  "${runner[@]}" env_runner.n_test=500 >killed.txt 2>&1 &
evaluation=$!
for ((i = 0; i < 600; i++)); do [ -s killed/episodes.partial.jsonl ] && break; sleep 0.1; done
pgrep -f "$work/scripted.py" >/dev/null || fail "it does not run: $(cat killed.txt)"
kill -KILL $evaluation
wait $evaluation || true
no_process scripted.py
