#!/usr/bin/env bash
# Run folders: a run is not overwritten by accident, only one process writes it, its files belong together at any kill,
# and its path is enough as an argument. Baselines without outcomes, names that leave the folder, and meaningless
# numbers are refused.
# Usage: run_folders.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
enter_scratch_folder
export OMP_NUM_THREADS=1

listing() { find . -path ./listing.txt -prune -o -path ./out.txt -prune -o -type f -exec sha256sum {} + -o -type d -print | sort; }
expect_unchanged() {  # expect_unchanged CODE TEXT COMMAND...: a command that fails and leaves everything as it was
  listing >listing.txt
  expect_exit "$@"
  ! grep -q "run folder:" out.txt || fail "$* announced a run folder: $(cat out.txt)"
  listing | diff listing.txt - || fail "$* changed files"
}

train_briefly "$dp_bench" "$configs" trained
short=(env_runner.n_test=10 env_runner.n_train=0 env_runner.n_videos=1 env_runner.micro_batch=4 env_runner.max_steps=20)
evaluate=("$dp_bench" eval --checkpoint trained/checkpoints/latest "${short[@]}")
"${evaluate[@]}" --output a >a.txt 2>&1 || fail "$(cat a.txt)"

echo "what holds a run is refused, with the ways out; folders without one are not"
expect_unchanged 2 "'a' already has an evaluation: .*Give --overwrite" "${evaluate[@]}" --output a
expect_unchanged 2 "never overwritten: checkpoints" "${evaluate[@]}" --output trained
expect_unchanged 2 "never overwritten: checkpoints" "${evaluate[@]}" --output trained --overwrite
expect_unchanged 2 "never overwritten: .*safetensors" "${evaluate[@]}" --output trained/checkpoints/latest --overwrite
expect_unchanged 2 "already has an evaluation" "${evaluate[@]}" --output a --perturb noise
expect_unchanged 2 "already has an evaluation" "${evaluate[@]}" --output a --latencies 0
small=(--config-dir "$configs" --policy unet_hybrid --env point_mass "policy.params.down_dims=[16,32]"
       policy.params.n_groups=4 collect.n_episodes=4 training.num_epochs=1 training.lr_warmup_steps=2
       training.rollout_every=0 dataloader.batch_size=32)
expect_unchanged 2 "already has an evaluation" "$dp_bench" train "${small[@]}" --output a
expect_unchanged 2 "never overwritten: checkpoints" "$dp_bench" run "${small[@]}" --output trained
expect_unchanged 2 "never overwritten: checkpoints" "$dp_bench" run "${small[@]}" --output trained --seeds 1,2
expect_unchanged 2 "already has an evaluation" "$dp_bench" export --checkpoint trained --output a
mkdir theirs
echo mine >theirs/notes.txt
"${evaluate[@]}" --output theirs >theirs.txt 2>&1 || fail "$(cat theirs.txt)"
cmp a/episodes.jsonl theirs/episodes.jsonl || fail "other episodes in a folder that was there"

echo "--overwrite removes the whole old evaluation, and only that"
"${evaluate[@]}" --output theirs --overwrite --weights model env_runner.n_videos=0 >theirs.txt 2>&1 || fail "$(cat theirs.txt)"
[ ! -e theirs/media ] || fail "old videos: $(ls theirs/media)"
[ "$(cat theirs/notes.txt)" = mine ] || fail "it removed what was not its own"
expect_exit 1 "10 of 10 episodes differ" "$dp_bench" diff a theirs

echo "what fails before the first episode leaves the folder as it was, and no folder where there was none"
expect_unchanged 2 "n_action_steps" "${evaluate[@]}" --output b/c n_action_step=4
expect_unchanged 2 "nothing reads this key" "${evaluate[@]}" --output a --overwrite foo=1
expect_unchanged 2 "unet_hybird" "${evaluate[@]}" policy.plugin=unet_hybird --output b
mkdir empty
expect_unchanged 6 "neither a checkpoint" "$dp_bench" eval --checkpoint empty --output b
expect_unchanged 2 "num_epochs" "$dp_bench" run "${small[@]}" training.num_epoch=3 --output b --seeds 1,2
cp -r trained/checkpoints/latest damaged
printf x | dd of=damaged/ema.safetensors bs=1 seek=5000 conv=notrunc status=none
expect_unchanged 6 "damaged/ema.safetensors" "$dp_bench" eval --checkpoint damaged --output a --overwrite
rmdir empty

echo "every verb refuses a key that nothing reads, before it collects, trains or opens a window"
fresh=(collect.start_seed=4242)  # a collection that does not exist yet
bad=(env_runnr.n_test=3 foo=1 training.num_epoch=3)
expect_bad_keys() {  # expect_bad_keys COMMAND...: with these keys it names all of them
  expect_unchanged 2 "nothing reads these keys" "$@" "${bad[@]}"
  for key in env_runnr "foo" "training.num_epoch (did you mean 'num_epochs'?)"; do
    grep -qF -- "$key" out.txt || fail "$* did not name $key: $(cat out.txt)"
  done
}
task=(--config-dir "$configs" --env point_mass)
expect_bad_keys "${evaluate[@]}" --output b
expect_bad_keys "${evaluate[@]}" --output b --latencies 0,100
expect_bad_keys "$dp_bench" collect "${task[@]}" "${fresh[@]}"
expect_bad_keys "$dp_bench" view "${task[@]}" --expert
expect_bad_keys "$dp_bench" view --checkpoint trained
expect_bad_keys "$dp_bench" correct --checkpoint trained --output head.safetensors
expect_bad_keys "$dp_bench" bench env "${task[@]}"
for verb in profile diagnose train run inspect; do
  expect_bad_keys "$dp_bench" "$verb" "${small[@]}" "${fresh[@]}"
done
expect_unchanged 2 "env.params" "$dp_bench" collect "${task[@]}" env.params.sped=1
expect_unchanged 2 "did you mean 'num_epochs'?" \
  "$dp_bench" train --config-dir "$configs" --policy unet_hybrid --env pusht dataset.params.path=nowhere.zarr training.num_epoch=3
expect_unchanged 2 "dataset.params.memory_limit_mb" "$dp_bench" train "${small[@]}" "${fresh[@]}" dataset.params.memory_limit_mb=9
echo "{\"include\": [\"$configs/policy/unet_hybrid.json\"]}" >policy_alone.json
expect_unchanged 2 "the config names none: give --env" "$dp_bench" train --config policy_alone.json
rm policy_alone.json
expect_unchanged 2 "policy" "$dp_bench" collect "${task[@]}" "${fresh[@]}" policy.params.n_groups=4
expect_unchanged 2 "policy.params.n_group" "$dp_bench" profile "${small[@]}" "${fresh[@]}" policy.params.n_group=4
expect_unchanged 2 "inspect --checkpoint does not use foo=1" "$dp_bench" inspect --checkpoint trained foo=1
"$dp_bench" collect --config trained/config.json --output again.zarr training.num_epochs=7 >out.txt 2>&1 ||
  fail "a known key of another section is refused: $(cat out.txt)"

echo "two processes do not write into one folder"
lock() { flock --nonblock "$@"; }  # lock FOLDER COMMAND...: while this shell holds the folder
mkdir free
expect_unchanged 2 "another process writes into 'free'" lock free "${evaluate[@]}" --output free
expect_unchanged 2 "another process writes into 'a'" lock a "$dp_bench" eval --resume a
expect_unchanged 2 "another process writes into 'a'" lock a "${evaluate[@]}" --output a --overwrite
expect_unchanged 2 "another process writes into 'trained'" lock trained "$dp_bench" train --resume trained
expect_unchanged 2 "another process writes into 'free'" lock free "$dp_bench" train "${small[@]}" --output free
expect_unchanged 2 "another process writes into 'free'" lock free "$dp_bench" run "${small[@]}" --output free --seeds 1,2
rmdir free

echo "a resume that cannot be changes no file: no training, a part that is missing, other samples, network or optimizer"
"$dp_bench" export --checkpoint trained --output policy >out.txt 2>&1 || fail "$(cat out.txt)"
cp -r trained/checkpoints/latest alone
ln -s alone linked
for verb in train run; do
  for folder in policy alone linked; do
    expect_unchanged 2 "is a policy outside of a run" "$dp_bench" $verb --resume $folder
  done
  expect_unchanged 2 "'a' is an evaluation" "$dp_bench" $verb --resume a
  expect_unchanged 2 "has no config.json" "$dp_bench" $verb --resume .
done
expect_unchanged 2 "is a policy outside of a run" "$dp_bench" train --resume policy --output copied
cp -r trained emptied
rm -r emptied/checkpoints
expect_unchanged 6 "there is no checkpoint to continue from" "$dp_bench" train --resume emptied
expect_unchanged 6 "there is no checkpoint to continue from" "$dp_bench" run --resume emptied
more=(training.num_epochs=2)
for change in "policy.params.down_dims=[8,16]" horizon=24 n_obs_steps=1 dataloader.batch_size=16 training.seed=7 training.max_train_steps=1; do
  expect_unchanged 2 "${change%%=*}: .*, not " "$dp_bench" train --resume trained "$change" "${more[@]}"
done
for verb in train run; do
  expect_unchanged 2 "continues with the config of 'trained'; found --config a/config.json" \
    "$dp_bench" $verb --resume trained --config a/config.json
done
expect_unchanged 2 "continues with the config of" "$dp_bench" train --resume trained --config a/config.json --output copied
expect_unchanged 2 "dataloader.batch_size: .*, not " "$dp_bench" train --resume trained --config-dir "$configs" --policy unet_hybrid
expect_unchanged 6 "of another optimizer" "$dp_bench" train --resume trained optimizer.name=sgd "${more[@]}"
expect_unchanged 6 "of another optimizer" "$dp_bench" train --resume trained optimizer.name=sgd --output copied
for part in model.safetensors optimizer.safetensors state.json; do
  cp -r trained broken
  rm "broken/checkpoints/latest/$part"
  expect_unchanged 6 "$part" "$dp_bench" train --resume broken "${more[@]}"
  expect_unchanged 6 "$part" "$dp_bench" train --resume broken --checkpoint latest "${more[@]}"
  rm -r broken
done

echo "a run of a version without one of the keys resumes, but not with other values"
cp -r trained older
sed -i '/"max_roll_forward"/d' older/config.json
expect_unchanged 2 "training.seed: 42, not 7" "$dp_bench" train --resume older training.seed=7 "${more[@]}"
! grep -q max_roll_forward out.txt || fail "$(cat out.txt)"
"$dp_bench" train --resume older "${more[@]}" >out.txt 2>&1 || fail "$(cat out.txt)"

echo "no other folder gives way to a checkpoint that is saved elsewhere, and a dry run saves none"
mkdir mine
save_at() { echo "checkpoint.save_at=[{\"epoch\": 0, \"path\": \"$1\"}]"; }
expect_unchanged 2 "/mine' exists and is no checkpoint" "$dp_bench" train "${small[@]}" --output b "$(save_at mine)"
expect_exit 0 "every part works" "$dp_bench" train "${small[@]}" --dry-run "$(save_at alone)"
diff -r trained/checkpoints/latest alone || fail "a dry run replaced a checkpoint"

echo "a checkpoint's path means its run, from this checkpoint"
cp -r trained by_path
ln -s by_path/checkpoints/latest by_link
cp -r trained longer
"$dp_bench" train --resume longer "${more[@]}" >out.txt 2>&1 || fail "$(cat out.txt)"
"$dp_bench" train --resume by_link "${more[@]}" >out.txt 2>&1 || fail "$(cat out.txt)"
diff -r -x tensorboard -x cost.json longer by_path || fail "the run, and its checkpoint by path, continue differently"
cp -r by_path twice
"$dp_bench" train --resume twice/./checkpoints/../checkpoints/latest/ >out.txt 2>&1 || fail "$(cat out.txt)"
diff -r -x tensorboard -x cost.json by_path twice || fail "nothing was left to train, but files changed"

echo "the plan of a gate rolls nothing out and overwrites no other result"
{ echo seed,success; for seed in {1..40}; do echo "$seed,$((seed % 2))"; done; } >half.csv
expect_exit 0 "is the baseline now, 40 episodes" "$dp_bench" gate --baseline half.json --update-baseline --candidate half.csv
plan=("$dp_bench" gate --baseline half.json --plan)
expect_exit 0 "success rate 50.0 %, correlation 0.00 assumed" "${plan[@]}"
expect_exit 0 "from 40 recorded pairs" "${plan[@]}" 0.05,0.1 --candidate half.csv --json plan.json
expect_exit 0 "5 points" "${plan[@]}" 0.05 --correlation 0.5 --json plan.json
expect_unchanged 2 "give the smallest drop" "${plan[@]}" 0
expect_unchanged 2 "Give another name" "${plan[@]}" 0.05 --json half.json
expect_unchanged 2 "runs no episodes" "${plan[@]}" 0.05 --candidate trained/checkpoints/latest
expect_unchanged 2 "runs no episodes" "${plan[@]}" 0.05 --policy random

echo "an unfinished evaluation has no verdict, and files of two runs have none"
gate=("$dp_bench" gate --baseline base.json)
expect_exit 0 "is the baseline now, 10 episodes" "${gate[@]}" --candidate a --update-baseline
cp -r a unfinished
mv unfinished/episodes.jsonl unfinished/episodes.partial.jsonl
rm unfinished/eval_log.json
for verb in "gate --baseline base.json --candidate unfinished" "compare a unfinished" "diff a unfinished" \
            "video unfinished --output x.mp4" "replay --run unfinished --episode 3"; do
  expect_unchanged 6 "not finished: .*continue with dp_bench eval --resume unfinished" "$dp_bench" $verb
done
cp -r a mixed
cp theirs/config.json theirs/manifest.json mixed
for verb in "gate --baseline base.json --candidate mixed" "eval --resume mixed" "compare a mixed"; do
  expect_unchanged 6 "not of one run: eval_log.json is of run .*, manifest.json of run" "$dp_bench" $verb
done
cp theirs/episodes.jsonl theirs/eval_log.json mixed
sed -i 's/"max_steps": 20/"max_steps": 25/' mixed/config.json
expect_unchanged 6 "whose config.json has the SHA-256" "$dp_bench" gate --baseline base.json --candidate mixed
"$dp_bench" eval --resume unfinished >out.txt 2>&1 || fail "$(cat out.txt)"
cmp a/eval_log.json unfinished/eval_log.json || fail "continued, it has another result"
expect_exit 0 "PASS: no change" "${gate[@]}" --candidate unfinished

echo "killed while it overwrites, it is the old evaluation, the new one, or unfinished"
RANDOM=3
for _ in 1 2 3 4 5 6; do
  rm -rf killed
  cp -r a killed
  "${evaluate[@]}" --output killed --overwrite --weights model >killed.txt 2>&1 &
  sleep "0.$((30 + RANDOM % 60))"
  kill -9 $! 2>/dev/null || true
  wait $! 2>/dev/null || true
  status=0
  "${gate[@]}" --candidate killed >out.txt 2>&1 || status=$?
  case $status in
    0 | 1 | 3) old=a; grep -q '"weights": "model"' killed/manifest.json && old=theirs
               [ "$(hashes killed)" = "$(hashes $old)" ] || fail "a verdict on episodes of another run" ;;
    6) if [ -e killed/manifest.json ] || [ -e killed/episodes.jsonl ]; then
         grep -q "not finished" out.txt || fail "$(cat out.txt)"
       else  # killed between the removal of the old run and the first file of the new one
         grep -q "no test episodes" out.txt || fail "$(cat out.txt)"
       fi ;;
    *) fail "the gate ended with $status: $(cat out.txt)" ;;
  esac
done

echo "a baseline without outcomes does not take the place of a good one"
cp base.json before.json
cp -r a broken
without_id broken
sed -i 's/"failure_reason":null/"failure_reason":"the env threw"/' broken/episodes.jsonl
expect_unchanged 6 "all of its 10 test episodes broke" "${gate[@]}" --candidate broken --update-baseline
sed -i '4,$ s/"failure_reason":"the env threw"/"failure_reason":null/' broken/episodes.jsonl
cp base.json some.json
expect_exit 0 "3 of them broke" "$dp_bench" gate --baseline some.json --candidate broken --update-baseline
: >broken/episodes.jsonl
expect_unchanged 6 "no test episodes" "${gate[@]}" --candidate broken --update-baseline
expect_unchanged 2 "is a checkpoint" "${gate[@]}" --candidate trained/checkpoints/latest --update-baseline
expect_unchanged 6 "no test episodes" "$dp_bench" gate --baseline base.json some.json --candidate a broken --update-baseline
cmp base.json before.json
expect_exit 3 "INCONCLUSIVE\|no change" "${gate[@]}" --candidate theirs --max-pairs 5
! grep -q block_size out.txt || fail "$(cat out.txt)"

echo "names are names"
for name in ../../../x a/b .hidden "$(printf 'a\033[31m')" "$(printf 'x%.0s' $(seq 101))"; do
  expect_unchanged 2 "expected a name of 1 to 100" "$dp_bench" train "${small[@]}" "name=$name"
  ! grep -q "$(printf '\033')" out.txt || fail "a control character is printed"
done

echo "numbers that mean nothing are refused, and samples are counted by rows"
expect_unchanged 2 "training.max_minutes: expected more than 0 minutes" "$dp_bench" train "${small[@]}" training.max_minutes=-1 --output b
expect_unchanged 2 "training.max_train_steps" "$dp_bench" train "${small[@]}" training.max_train_steps=-1 --output b
"$dp_bench" train "${small[@]}" dataloader.batch_size=1000000000 --output huge >out.txt 2>&1 || fail "$(cat out.txt)"
rate=$(sed -nE 's/.*trained 1 steps in .*, ([0-9]+) samples\/s/\1/p' out.txt)
[ "$rate" -lt 1000000 ] || fail "$rate samples/s: $(cat out.txt)"

for seeds in -1 "" 42,,43 42, 4.5 18446744073709551616; do
  expect_unchanged 2 "--seeds: expected integers from 0 to" "$dp_bench" run "${small[@]}" --seeds "$seeds" --output b
done
expect_unchanged 2 "test_start_seed" "$dp_bench" train "${small[@]}" env_runner.test_start_seed=18446744073709551615 --output b
expect_unchanged 2 "start_seed" "$dp_bench" collect --env point_mass collect.start_seed=18446744073709551615 --output b

echo "what does not fit says what was expected, what was found and what to do"
expect_unchanged 2 "the action is low_dim float32 \[3\], the env's low_dim float32 \[2\]. Correct shape_meta" \
  "${evaluate[@]}" --output b "shape_meta.action.shape=[3]"
expect_unchanged 2 "the action is low_dim float32 \[3\]" "$dp_bench" train "${small[@]}" "${fresh[@]}" "shape_meta.action.shape=[3]"
expect_unchanged 2 "horizon is 2000, longer than any training episode" "$dp_bench" train "${small[@]}" horizon=2000 --output b

echo "a path to a run or its checkpoint is enough"
mkdir -p trained/checkpoints/epoch=0000-test_mean_score=0.500
cp trained/checkpoints/latest/* trained/checkpoints/epoch=0000-test_mean_score=0.500
expect_exit 0 "checkpoint: trained/checkpoints/epoch=0000-test_mean_score=0.500, the best of 1 by test_mean_score" \
  "$dp_bench" eval --checkpoint trained "${short[@]}" --output of_run
cmp of_run/episodes.jsonl a/episodes.jsonl
"$dp_bench" diagnose trained --rollouts 0 >out.txt 2>&1 || [ $? -eq 1 ] || fail "$(cat out.txt)"
grep -q "checkpoint: trained/checkpoints/latest" out.txt || fail "$(cat out.txt)"
expect_exit 2 "neither the folder of a run" "$dp_bench" diagnose nowhere
expect_exit 0 "parameters" "$dp_bench" inspect --checkpoint trained
expect_exit 0 "ema.safetensors in float32 and the normalizer" "$dp_bench" export --checkpoint trained --output exported
expect_exit 0 "trace hash as recorded" "$dp_bench" replay --run a --episode 3
expect_exit 0 "1 episodes" "$dp_bench" video a --output video.gif
expect_exit 0 "1 episodes" "$dp_bench" video a --output strips.png
expect_exit 2 ".gif or .png" "$dp_bench" video a --output video.avi

echo "weights that are not finite are named"
python3 - exported <<'PYTHON'
import hashlib, json, pathlib, struct, sys
folder = pathlib.Path(sys.argv[1])
path = folder / "ema.safetensors"
data = bytearray(path.read_bytes())
(length,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + length])
name, begin = min((n, 8 + length + t["data_offsets"][0]) for n, t in header.items() if n != "__metadata__" and len(t["shape"]) > 1)
data[begin:begin + 12] = struct.pack("<3f", float("nan"), float("inf"), float("nan"))
path.write_bytes(data)
pathlib.Path("tensor.txt").write_text(name)
manifest = json.loads((folder / "manifest.json").read_text())
manifest["format_version"] = 1
manifest.pop("sha256")
manifest["files"]["ema.safetensors"]["sha256"] = hashlib.sha256(data).hexdigest()
(folder / "manifest.json").write_text(json.dumps(manifest))
PYTHON
expect_exit 1 "NOT FINITE: ema.safetensors: $(cat tensor.txt) has 2 NaN and 1 Inf among its" "$dp_bench" inspect --checkpoint exported
echo "run_folders: ok"
