#!/usr/bin/env bash
# A suite of 2 policies x 2 tasks x 2 training seeds: killed at random moments it has the results of one in one go; what is
# done is not done again; two processes share the work; a failed step does not stop the others.
# Usage: suite.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$(readlink -f "$1")
n_kills=${DPB_KILLS:-3}
enter_scratch_folder

write_suite() {  # write_suite FILE MORE_POLICIES
  cat >"$1" <<JSON
{
  "name": "small",
  "policies": [
    {"policy": "unet_hybrid", "overrides": ["policy.params.down_dims=[16,32]", "policy.params.n_groups=4"]},
    {"policy": "random", "trained": false}$2
  ],
  "tasks": [
    {"name": "still", "env": "point_mass", "group": "easy"},
    {"name": "noisy", "env": "point_mass", "group": "hard", "overrides": ["env.perturb.noise=0.1"]}
  ],
  "seeds": [42, 43],
  "overrides": ["collect.n_episodes=6", "training.num_epochs=15", "training.lr_warmup_steps=2",
                "training.rollout_every=0", "dataloader.batch_size=32", "env_runner.n_test=12",
                "env_runner.n_videos=1"]
}
JSON
}
write_suite suite.json ""
run=("$dp_bench" suite --config-dir "$(readlink -f "$2")" suite.json)
"${run[@]}" --output whole >whole.txt 2>&1 || fail "$(cat whole.txt)"
for file in suite.json suite.md suite.csv suite.tex suite.html; do
  [ -s "whole/$file" ] || fail "there is no $file: $(cat whole.txt)"
done
[ "$(grep -c ^begin whole.txt)" -eq 8 ] || fail "expected 2 collections, 4 trainings and 2 evaluations: $(cat whole.txt)"
[ "$(wc -l <whole/suite.csv)" -eq 5 ] || fail "$(cat whole/suite.csv)"
grep -q "letters" whole.txt || fail "$(cat whole.txt)"

# killed
RANDOM=7
n_killed=0
n_folders=0
while [ "$n_killed" -lt "$n_kills" ]; do
  n_folders=$((n_folders + 1))
  for attempt in 1 2 3 4 5 6 7; do
    status=0
    "${run[@]}" --output "killed$n_folders" >killed.txt 2>&1 &
    if [ "$attempt" -lt 7 ] && [ "$n_killed" -lt "$n_kills" ]; then
      sleep "$((RANDOM % 3)).$((RANDOM % 10))"
      kill -9 $! 2>/dev/null || true
    fi
    wait $! 2>/dev/null || status=$?
    [ "$status" -eq 137 ] || break
    n_killed=$((n_killed + 1))
  done
  [ "$status" -eq 0 ] || fail "attempt $attempt ended with $status: $(cat killed.txt)"
  cmp whole/suite.json "killed$n_folders/suite.json" || fail "a killed suite has other results"
done
echo "$n_killed suites were killed in $n_folders folders"

# two at once, and a signal
"${run[@]}" --output shared >first.txt 2>&1 &
first=$!
"${run[@]}" --output shared --jobs 2 >second.txt 2>&1 || fail "$(cat second.txt)"
wait $first || fail "$(cat first.txt)"
cmp whole/suite.json shared/suite.json || fail "two processes have other results"
for file in first.txt second.txt; do
  grep -q ^begin $file || fail "only one of two processes worked: $(cat first.txt second.txt)"
done
"${run[@]}" --output stopped >stopped.txt 2>&1 &
until grep -q "begin   unet" stopped.txt; do sleep 0.05; done
kill -INT $!
expect_ended 75 stopped.txt $!
! pgrep -f "output $work/stopped" >/dev/null || fail "a step goes on after the suite has ended"

# nothing to do, but a report that a kill came before; one more policy; results without folders
report=$(find whole/cells -name report.html | head -1)
rm "$report"
"${run[@]}" --output whole >again.txt 2>&1 || fail "$(cat again.txt)"
! grep -q ^begin again.txt || fail "done steps ran again: $(cat again.txt)"
[ -s "$report" ] || fail "a cell has no report"
write_suite suite.json ', {"policy": "random", "name": "second", "trained": false, "overrides": ["env_runner.max_steps=50"]}'
"${run[@]}" --output whole >more.txt 2>&1 || fail "$(cat more.txt)"
[ "$(grep -c ^begin more.txt)" -eq 2 ] || fail "expected the 2 new evaluations: $(cat more.txt)"
"${run[@]}" --output elsewhere --results whole/suite.json >elsewhere.txt 2>&1 || fail "$(cat elsewhere.txt)"
! grep -q ^begin elsewhere.txt || fail "known steps ran: $(cat elsewhere.txt)"
cmp whole/suite.json elsewhere/suite.json
"${run[@]}" --output whole --dry-run >dry.txt 2>&1 || fail "$(cat dry.txt)"
[ "$(grep -c ^done dry.txt)" -eq 8 ] || fail "$(cat dry.txt)"

# a prediction: from finished cells of the policy, or else from a trial, which leaves nothing
sed -i 's/"seeds": \[42, 43\]/"seeds": [42, 43, 44]/' suite.json
expect_exit 0 "2 to do of unet_hybrid, from 4 finished: about .* processor time" "${run[@]}" --output whole --dry-run
# where two cells are missing, eight jobs are no faster than two; a shard counts only its own
about() { sed -nE 's/^2 to do of unet_hybrid.*: about ([0-9:]+) with --jobs.*/\1/p' "$1"; }
for jobs in 2 8; do "${run[@]}" --output whole --dry-run --jobs $jobs >"dry$jobs.txt" 2>&1 || fail "$(cat "dry$jobs.txt")"; done
[ -n "$(about dry2.txt)" ] && [ "$(about dry2.txt)" = "$(about dry8.txt)" ] || fail "$(cat dry2.txt dry8.txt)"
for i in 0 1; do "${run[@]}" --output whole --dry-run --shard "$i/2" >"dry$i.txt" 2>&1 || fail "$(cat "dry$i.txt")"; done
for state in "to do" "other shard"; do
  [ "$(cat dry0.txt dry1.txt | grep -c "^$state  ")" -eq 2 ] || fail "$state: $(cat dry0.txt dry1.txt)"
done
mkdir temporary
TMPDIR=$work/temporary "${run[@]}" --output untouched --dry-run >dry.txt 2>&1 || fail "$(cat dry.txt)"
for what in "2 to do of demonstrations, from 2 demonstrations" "6 to do of unet_hybrid, from 8 episodes and 5 training steps" \
            "2 to do of random, from 12 episodes" "12 to do: about .* processor time .* GiB on disk, .* MiB of memory"; do
  grep -q "$what" dry.txt || fail "no '$what': $(cat dry.txt)"
done
[ ! -e untouched ] && [ -z "$(ls temporary)" ] || fail "a dry run left files: $(ls temporary untouched)"
grep -q 'class="video"' whole/suite.html || fail "the page of a repeated command has no videos"

# parts, joined
write_suite suite.json ""
for i in 0 1; do "${run[@]}" --output "part$i" --shard "$i/2" >part.txt 2>&1 || fail "$(cat part.txt)"; done
"${run[@]}" --output part0 --results part1/suite.json >joined.txt 2>&1 || fail "$(cat joined.txt)"
! grep -q ^begin joined.txt || fail "parts do not have all cells: $(cat joined.txt)"
cmp killed1/suite.json part0/suite.json || fail "joined parts have other results"

# a step that fails
write_suite suite.json ', {"policy": "random", "name": "broken", "trained": false, "overrides": ["policy.params.bogus=9"]}'
status=0
"${run[@]}" --output whole >failed.txt 2>&1 || status=$?
[ "$status" -ne 0 ] || fail "a failed step goes unnoticed: $(cat failed.txt)"
grep -q "FAILED  broken on still: .*bogus" failed.txt || fail "$(cat failed.txt)"
grep -q "broken on noisy" failed.txt || fail "a failed step stops the others: $(cat failed.txt)"

# without all cells there is nothing to allocate
python3 - <<'PYTHON'
import json
table = json.load(open("whole/suite.json"))
assert {(cell["policy"], cell["task"]) for cell in table["missing_cells"]} == {("broken", "still"), ("broken", "noisy")}
table["missing_cells"] = [{"policy": "random", "task": "still", "seed": 42}]
json.dump(table, open("part.json", "w"))
PYTHON
grep -q "FAILED: broken on still" whole/suite.md || fail "$(cat whole/suite.md)"
expect_exit 6 "two policies or more with all cells" "$dp_bench" compare part.json --allocate 100

# cells of another version of the env are not compared
sed '0,/"env_version": "[^"]*"/s//"env_version": "0.0.1"/' whole/suite.json >part.json
! cmp -s part.json whole/suite.json || fail "the cells have no env version"
expect_exit 4 "not comparable: still: expected cells of one version .* 0.0.1 (unet_hybrid)" "$dp_bench" compare part.json --allocate 100

# a step that is killed
cat >suite.json <<JSON
{"name": "ended", "policies": [{"policy": "random", "trained": false}], "tasks": [{"env": "point_mass"}],
 "overrides": ["env_runner.n_test=1000000", "env_runner.n_videos=0"]}
JSON
"${run[@]}" --output ended >ended.txt 2>&1 &
until step=$(pgrep -f "output $work/ended/cells"); do kill -0 $! || fail "$(cat ended.txt)"; sleep 0.05; done
kill -9 $step
expect_ended 137 ended.txt $!
for file in ended.txt ended/suite.html; do
  grep -q "ended by signal 9 (Killed); .*fewer --jobs" $file || fail "$file does not name the signal: $(cat ended.txt)"
done

# rows of one checkpoint that differ in their delay (the example of docs/guide/suites.md)
checkpoint=$(readlink -f whole/cells/unet_hybrid/still/seed_42-*/run)
late='"env_runner.chunking.delay=4", "env_runner.chunking.execute=4"'
cat >suite.json <<JSON
{
  "name": "late",
  "policies": [
    {"name": "waits", "checkpoint": "$checkpoint"},
    {"name": "late", "checkpoint": "$checkpoint", "overrides": [$late]},
    {"name": "late_bid", "checkpoint": "$checkpoint",
     "overrides": [$late, "env_runner.chunking.method=bid", "env_runner.chunking.n_samples=2"]}
  ],
  "tasks": [{"name": "still", "env": "point_mass"}],
  "overrides": ["env_runner.n_test=12", "env_runner.n_videos=0"]
}
JSON
"${run[@]}" --output late >late.txt 2>&1 || fail "$(cat late.txt)"
python3 - "$checkpoint" late/cells/*/still/seed_*/run <<'PYTHON' || fail "$(cat late.txt)"
import json, pathlib, sys
def episodes(folder):
    rows = [json.loads(line) for line in open(f"{folder}/episodes.jsonl")]
    return [(row["seed"], row["trace_hash"], row.get("n_stale_steps", 0)) for row in rows if row["split"] == "test"]
trained = episodes(sys.argv[1])
rows = {pathlib.Path(folder).parts[-4]: episodes(folder) for folder in sys.argv[2:]}
assert len(rows) == 3 and rows["waits"] == trained, rows
for name in ("late", "late_bid"):
    assert [row[0] for row in rows[name]] == [row[0] for row in trained]  # paired by seed
    assert sum(row[2] for row in rows[name]) > 0, name
assert rows["late"] != rows["late_bid"]
PYTHON
[ "$(grep -c ',still,late' late/suite.csv)" -eq 2 ] || fail "$(cat late/suite.csv)"

# a server that is gone: the step fails, keeps its episodes, and continues when the server is back
serve() {  # serve PORT
  "$dp_bench" serve --checkpoint "$checkpoint" --port "$1" >server.txt 2>server_log.txt &
  server=$!
  until [ -s server.txt ]; do kill -0 $server || fail "$(cat server_log.txt)"; sleep 0.05; done
}
stop_server() { kill $server; wait $server || true; }
serve 0
url=$(cat server.txt)
cat >suite.json <<JSON
{"name": "served", "policies": [{"policy": "remote", "trained": false}], "tasks": [{"env": "point_mass"}],
 "overrides": ["policy.params.url=$url", "env_runner.n_test=300", "env_runner.n_videos=0", "env_runner.n_envs=2"]}
JSON
"${run[@]}" --output served >served.txt 2>&1 &
until compgen -G "served/cells/remote/*/*/run/episodes.part*" >/dev/null; do kill -0 $! || fail "$(cat served.txt)"; sleep 0.05; done
sleep 0.3
kill -INT $!
expect_ended 75 served.txt $!
rows() { cat served/cells/remote/*/*/run/episodes.part* | wc -l; }
n_rows=$(rows)
stop_server
expect_exit 2 "FAILED  remote on point_mass: .*Is it running" "${run[@]}" --output served
[ "$(rows)" -eq "$n_rows" ] || fail "the episodes of a step that failed are gone"
serve "${url##*:}"
"${run[@]}" --output served >served.txt 2>&1 || fail "$(cat served.txt)"
stop_server

# the seeds of the trainings are those of the suite
echo '{"name": "a", "policies": [{"policy": "unet_hybrid"}], "tasks": [{"env": "point_mass"}], "overrides": ["training.seed=7"]}' >suite.json
expect_exit 2 "the suite's seeds set training.seed" "${run[@]}" --output none

# files that are no suite
echo '{"name": "a", "policies": [{"polcy": "unet_hybrid"}], "tasks": [{"env": "point_mass"}]}' >suite.json
expect_exit 2 "one of policy, config and checkpoint" "${run[@]}" --output none
echo '{"name": "a", "policies": [{"policy": "unet_hybrid"}], "tasks": [{"env": "point_mass"}], "sedes": [1]}' >suite.json
expect_exit 2 "sedes" "${run[@]}" --output none
echo '{"name": "a", "policies": [{"policy": "unet_hybrd"}], "tasks": [{"env": "point_mass"}]}' >suite.json
expect_exit 2 "unet_hybrd" "${run[@]}" --output none
