#!/usr/bin/env bash
# The program from end to end on the small task: collect, train, resume, evaluate, report; bad input.
# Usage: whole_run.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
enter_scratch_folder

small=(--config-dir "$configs" --policy unet_hybrid --env point_mass
       "policy.params.down_dims=[16,32]" policy.params.n_groups=4 collect.n_episodes=10
       training.lr_warmup_steps=2 dataloader.batch_size=32
       env_runner.n_test=4 env_runner.n_videos=1 env_runner.micro_batch=4)

echo "a run leaves everything that was promised"
"$dp_bench" run "${small[@]}" training.num_epochs=2 --output whole >whole.txt 2>&1 || fail "$(cat whole.txt)"
for file in config.json manifest.json logs.json.txt eval_log.json episodes.jsonl report.html \
            checkpoints/latest/manifest.json media/test_100000.mp4 media/test_100000.safetensors; do
  [ -s "whole/$file" ] || fail "whole/$file is missing"
done
[ "$(wc -l <whole/episodes.jsonl)" -eq 4 ] || fail "expected 4 episodes"
grep -q "collecting 10 episodes of point_mass" whole.txt || fail "it did not collect: $(cat whole.txt)"

grep -q "Test seeds 100000 to 100003; the training was evaluated on others, 200000 to 200003" whole.txt || fail "$(cat whole.txt)"
[ -s whole/rollouts/media/test_200000.mp4 ] || fail "the training recorded $(ls whole/rollouts/media)"
grep -q '"test/mean_score"' whole/logs.json.txt || fail "the log lacks the score"

echo "an evaluation on the seeds that select checkpoints is marked"
"$dp_bench" eval --checkpoint whole/checkpoints/latest --output chosen env_runner.test_start_seed=200002 >eval.txt 2>&1 ||
  fail "$(cat eval.txt)"
grep -q "WARNING: 2 of the 4 test seeds" eval.txt || fail "$(cat eval.txt)"
grep -q '"test/n_selection_seeds": 2' chosen/eval_log.json || fail "$(cat chosen/eval_log.json)"
grep -q '"n_shared": 2' chosen/manifest.json || fail "$(cat chosen/manifest.json)"
grep -q "WARNING: 2 of the 4" chosen/report.html || fail "no mark in the report"
! grep -q n_selection_seeds whole/eval_log.json || fail "an honest evaluation is marked"
expect_exit 2 "selection_start_seed" "$dp_bench" eval --checkpoint whole/checkpoints/latest env_runner.selection_start_seed=-1

echo "its resolved config runs again and gives the same weights"
"$dp_bench" train --config whole/config.json --output again >again.txt 2>&1 || fail "$(cat again.txt)"
cmp whole/checkpoints/latest/ema.safetensors again/checkpoints/latest/ema.safetensors
grep -q "10 episodes collected before" again.txt || fail "it collected again: $(cat again.txt)"

echo "a training that was cut short resumes to the same weights"
"$dp_bench" train "${small[@]}" training.num_epochs=2 training.max_minutes=1e-9 --output cut >cut.txt 2>&1 || fail "$(cat cut.txt)"
! cmp -s whole/checkpoints/latest/ema.safetensors cut/checkpoints/latest/ema.safetensors || fail "it was not cut short"
"$dp_bench" train --resume cut training.max_minutes=null >cut.txt 2>&1 || fail "$(cat cut.txt)"
cmp whole/checkpoints/latest/ema.safetensors cut/checkpoints/latest/ema.safetensors

echo "references are resolved in the run's config, and inspect and a dry run print them"
"$dp_bench" train "${small[@]}" training.num_epochs=2 val_dataloader.batch_size=16 \
  'dataloader.batch_size=${eval: ${val_dataloader.batch_size} * 2}' --output referring >ref.txt 2>&1 || fail "$(cat ref.txt)"
cmp whole/checkpoints/latest/ema.safetensors referring/checkpoints/latest/ema.safetensors
grep -q '"batch_size": 32' referring/config.json || fail "$(cat referring/config.json)"
! grep -q '\${' referring/config.json || fail "a reference is left: $(cat referring/config.json)"
"$dp_bench" inspect --config-dir "$configs" --policy unet_hybrid --env point_mass horizon=16 'n_action_steps=${eval: ${horizon} / 4}' \
  "policy.params.down_dims=[16,32]" policy.params.n_groups=4 --json >inspect.json 2>ref.txt || fail "$(cat ref.txt)"
grep -q 'n_action_steps = 4, from ${eval: ${horizon} / 4} (command line' ref.txt || fail "$(cat ref.txt)"
python3 -m json.tool inspect.json >/dev/null || fail "not JSON: $(cat inspect.json)"
expect_exit 2 "did you mean 'horizon'" "$dp_bench" train "${small[@]}" horizon=16 'n_action_steps=${horizn}' --output bad6
expect_exit 2 "cycle: horizon -> n_action_steps -> horizon" "$dp_bench" train "${small[@]}" \
  'horizon=${n_action_steps}' 'n_action_steps=${horizon}' --output bad6

echo "a run goes back to a chosen checkpoint, repeats what came later, and keeps the old files"
cp -r whole back
expect_exit 2 "expected the name of one checkpoint" "$dp_bench" run --resume back --checkpoint epoch=0007
expect_exit 2 "resume" "$dp_bench" run --checkpoint epoch=0000
diff -r whole back || fail "a refused command changed the run"
"$dp_bench" run --resume back --checkpoint epoch=0000 >back.txt 2>&1 || fail "$(cat back.txt)"
grep -q "is set aside in 'back/set_aside/1'" back.txt || fail "$(cat back.txt)"
for file in checkpoints/latest/ema.safetensors checkpoints/latest/optimizer.safetensors logs.json.txt episodes.jsonl; do
  cmp "whole/$file" "back/$file"
  cmp "whole/$file" "back/set_aside/1/$file"
done
"$dp_bench" compare whole back/set_aside/1 >back.txt 2>&1 || fail "$(cat back.txt)"
cp -r whole back2
"$dp_bench" train --resume back2 --checkpoint epoch=0000 --output back3 >back.txt 2>&1 || fail "$(cat back.txt)"
cmp whole/checkpoints/latest/ema.safetensors back3/checkpoints/latest/ema.safetensors
diff -r whole back2 || fail "continuing in a copy changed the run"

echo "the other optimizers train, with the config of a policy that names AdamW's betas"
for name in adam sgd; do
  "$dp_bench" train "${small[@]}" training.num_epochs=1 optimizer.name=$name --output "with_$name" >opt.txt 2>&1 ||
    fail "$(cat opt.txt)"
done
expect_exit 2 "did you mean 'adamw'" "$dp_bench" train "${small[@]}" optimizer.name=adamw2 --output bad7
expect_exit 2 "momentum" "$dp_bench" train "${small[@]}" optimizer.momentum=0.9 --output bad7
expect_exit 6 "of another optimizer" "$dp_bench" train --resume with_adam optimizer.name=sgd training.num_epochs=2

echo "a checkpoint gives the same episodes for any number of workers, exported or not"
"$dp_bench" export --checkpoint whole/checkpoints/latest --output exported >/dev/null
for workers in 1 3; do
  "$dp_bench" eval --checkpoint exported --output "eval$workers" \
    env_runner.n_workers="$workers" env_runner.n_envs="$workers" >eval.txt 2>&1 || fail "$(cat eval.txt)"
  cmp whole/episodes.jsonl "eval$workers/episodes.jsonl"
done

echo "half of the bytes: weights in 16 bits, and nearly the same scores"
for dtype in float16 bfloat16; do
  "$dp_bench" export --checkpoint whole/checkpoints/latest --dtype $dtype --output $dtype >half.txt
  grep -q "$dtype: ema.safetensors in $dtype" half.txt || fail "$(cat half.txt)"
  "$dp_bench" eval --checkpoint $dtype --output "eval_$dtype" >eval.txt 2>&1 || fail "$(cat eval.txt)"
  cmp -s whole/episodes.jsonl "eval_$dtype/episodes.jsonl" && fail "$dtype changed nothing"
  python3 - $dtype <<'PYTHON' || fail "$(ls -l exported $dtype)"
import json
import sys
from pathlib import Path
dtype = sys.argv[1]
sizes = [(Path(folder) / "ema.safetensors").stat().st_size for folder in ("exported", dtype)]
assert 0.5 <= sizes[1] / sizes[0] < 0.6, sizes
scores = [json.loads((Path(folder) / "eval_log.json").read_text())["test/mean_score"] for folder in ("whole", f"eval_{dtype}")]
assert abs(scores[1] - scores[0]) < 0.05, scores
PYTHON
done
expect_exit 2 "only for --format dp_bench" "$dp_bench" export --checkpoint whole --dtype float16 --format onnx --output bad8
expect_exit 2 "not in {" "$dp_bench" export --checkpoint whole --dtype int8 --output bad8

echo "a dataset grows, is read by its own keys, and refuses episodes of another origin"
collect=("$dp_bench" collect --config-dir "$configs" --env point_mass --output own.zarr)
"${collect[@]}" --episodes 6 >collect.txt 2>&1 || fail "$(cat collect.txt)"
"${collect[@]}" --episodes 10 >collect.txt 2>&1 || fail "$(cat collect.txt)"
grep -q "own.zarr, 10 episodes" collect.txt || fail "$(cat collect.txt)"
diff -r own.zarr data/point_mass-*.zarr || fail "the same episodes, other bytes"
"$dp_bench" train "${small[@]}" training.num_epochs=2 --dataset own.zarr --output own >own.txt 2>&1 || fail "$(cat own.txt)"
cmp whole/checkpoints/latest/ema.safetensors own/checkpoints/latest/ema.safetensors
expect_exit 2 "another origin" "${collect[@]}" --episodes 12 collect.start_seed=5

echo "a dry run tries every part, prints what the run needs, and leaves no files"
find . -type f | sort >before.txt
TMPDIR=$work "$dp_bench" run "${small[@]}" --output later/dry --dry-run >dry.txt 2>&1 || fail "$(cat dry.txt)"
for line in "trained 2 steps" "dry run: every part works" "^disk .* for 7 checkpoints" "^memory .* batch size 32" \
            "^time .* from .* episodes and 5 training steps"; do
  grep -q "$line" dry.txt || fail "no line '$line': $(cat dry.txt)"
done
TMPDIR=$work "$dp_bench" train "${small[@]}" collect.start_seed=77 'training.num_epochs=${eval: 1 + 1}' --dry-run >dry.txt 2>&1 || fail "$(cat dry.txt)"
grep -q "collecting 2 episodes" dry.txt || fail "it did not collect two: $(cat dry.txt)"
grep -q 'training.num_epochs = 2, from ${eval: 1 + 1}' dry.txt || fail "no reference: $(cat dry.txt)"
rm dry.txt
find . -type f | grep -v before.txt | sort | diff <(grep -v before.txt before.txt) - || fail "a dry run left files"
expect_exit 2 "down_dims" "$dp_bench" run "${small[@]}" "policy.params.down_dims=[7]" --dry-run
expect_exit 0 "The whole run of 3 seeds needs" "$dp_bench" run "${small[@]}" --dry-run --seeds 42,43,44
grep -q "^disk .* for 21 checkpoints" out.txt || fail "not three times the checkpoints of one seed: $(cat out.txt)"
expect_exit 2 "names 42 twice" "$dp_bench" run "${small[@]}" --dry-run --seeds 42,42

echo "several training seeds are trained, evaluated and reported together"
seeds=("$dp_bench" run "${small[@]}" training.num_epochs=1 env_runner.n_videos=0)
"${seeds[@]}" --seeds 42,43 --output seeds >seeds.txt 2>&1 || fail "$(cat seeds.txt)"
grep -q "interval of the mean over 2 seeds" seeds.txt || fail "$(cat seeds.txt)"
for file in config.json multi_run.json report.html seed_42/report.html seed_43/episodes.jsonl; do
  [ -s "seeds/$file" ] || fail "seeds/$file is missing"
done
grep -q "seed_43/report.html" seeds/report.html || fail "the report links no seed"
! cmp -s seeds/seed_42/checkpoints/latest/ema.safetensors seeds/seed_43/checkpoints/latest/ema.safetensors ||
  fail "both seeds gave the same weights"

echo "a run over seeds continues with the seed that is missing, and changes no other"
cp -r seeds whole_seeds
rm -r seeds/seed_43 seeds/report.html
"$dp_bench" run --resume seeds >seeds.txt 2>&1 || fail "$(cat seeds.txt)"
! grep -q "^seed 42$" seeds.txt || fail "it trained seed 42 again"
for file in multi_run.json report.html seed_43/episodes.jsonl seed_43/checkpoints/latest/ema.safetensors; do
  cmp "seeds/$file" "whole_seeds/$file"
done

echo "a run over seeds, one of which lost its checkpoints, is refused, and nothing changes"
cp -r whole_seeds lost_seeds
rm -r lost_seeds/seed_43/checkpoints lost_seeds/seed_43/episodes.jsonl
cp -r lost_seeds lost_before
expect_exit 6 "'lost_seeds/seed_43' cannot be resumed" "$dp_bench" run --resume lost_seeds
diff -r lost_before lost_seeds || fail "a refused command changed the run"

echo "the section multi_run does the same as --seeds"
"${seeds[@]}" 'multi_run.seeds=[42,43]' multi_run.run_dir=section >seeds.txt 2>&1 || fail "$(cat seeds.txt)"
for file in config.json multi_run.json report.html seed_42/config.json seed_42/manifest.json seed_42/logs.json.txt \
            seed_42/episodes.jsonl seed_43/config.json seed_43/checkpoints/latest/ema.safetensors; do
  cmp "section/$file" "whole_seeds/$file"
done
"${seeds[@]}" 'multi_run.seeds=[7,8]' --seeds 42 --output other >seeds.txt 2>&1 || fail "$(cat seeds.txt)"
[ -d other/seed_42 ] && [ ! -e other/seed_7 ] || fail "the section won over --seeds: $(ls other)"
"$dp_bench" train "${small[@]}" training.num_epochs=1 'multi_run.seeds=[7,8]' --output one >seeds.txt 2>&1 || fail "$(cat seeds.txt)"
grep -q "multi_run is for" seeds.txt || fail "$(cat seeds.txt)"
expect_exit 2 "multi_run.seeds: expected one or more seeds" "${seeds[@]}" 'multi_run.seeds=[-1]' --output bad8
expect_exit 2 "multi_run.seed (did you mean 'seeds'?)" "${seeds[@]}" 'multi_run.seeds=[1]' multi_run.seed=1 --output bad8
expect_exit 2 "seeds: this key is missing" "${seeds[@]}" multi_run.run_dir=bad8
expect_exit 2 "omit --seeds and multi_run" "$dp_bench" run --resume seeds 'multi_run.seeds=[42]'
expect_exit 2 "of several seeds .*; found optimizer.lr=1" "$dp_bench" run --resume seeds optimizer.lr=1
expect_exit 0 "mean over 2 seeds" "$dp_bench" run --resume seeds dataloader.num_workers=0
expect_exit 2 "folder of one seed" "$dp_bench" run --resume seeds --checkpoint epoch=0000
expect_exit 2 "42 twice" "${seeds[@]}" --seeds 42,42 --output bad5
expect_exit 2 "omit --seeds" "$dp_bench" run --resume seeds --seeds 42

echo "a dataset is enough for a training, which resumes, and the policy is evaluated later"
no_env=(--config-dir "$configs" --policy unet_hybrid --dataset own.zarr "policy.params.down_dims=[16,32]" policy.params.n_groups=4
        training.num_epochs=2 training.lr_warmup_steps=2 dataloader.batch_size=32)
"$dp_bench" train "${no_env[@]}" --output no_env >out.txt 2>&1 || fail "$(cat out.txt)"
grep -q "no env, so no rollouts; the policy observes" out.txt || fail "$(cat out.txt)"
"$dp_bench" train "${no_env[@]}" training.max_minutes=1e-9 --output no_env_cut >out.txt 2>&1 || fail "$(cat out.txt)"
"$dp_bench" train --resume no_env_cut training.max_minutes=null >out.txt 2>&1 || fail "$(cat out.txt)"
cmp no_env/checkpoints/latest/ema.safetensors no_env_cut/checkpoints/latest/ema.safetensors
[ -s no_env/cost.json ] || fail "it does not say what it cost"
expect_exit 2 "--env" "$dp_bench" eval --checkpoint no_env --output bad9
expect_exit 2 "--env" "$dp_bench" run "${no_env[@]}" --output bad9
[ ! -e bad9 ] || fail "a refused command left a folder"
"$dp_bench" eval --checkpoint no_env --env point_mass --output of_no_env env_runner.n_test=2 >out.txt 2>&1 || fail "$(cat out.txt)"
grep -q '"load_average"' of_no_env/latency.json || fail "$(cat of_no_env/latency.json)"
grep -q "The run took .*CPU time" of_no_env/report.html || fail "the report does not say what it cost"

echo "bad input gives a message and its exit code"
expect_exit 2 "num_epochs" "$dp_bench" train "${small[@]}" training.num_epoch=1 --output bad1
expect_exit 2 "point_mass" "$dp_bench" train --config-dir "$configs" --policy unet_hybrid --env point_mas
expect_exit 2 "single task" "$dp_bench" train "${small[@]}" --task lift
expect_exit 2 "no task config point_mass_smell" "$dp_bench" train "${small[@]}" --obs smell
expect_exit 2 "training.device" "$dp_bench" train "${small[@]}" --device abacus --output bad4
expect_exit 2 "horizon" "$dp_bench" train "${small[@]}" n_action_steps=40 --output bad2
printf x | dd of=exported/ema.safetensors bs=1 seek=5000 conv=notrunc status=none
expect_exit 6 "ema.safetensors" "$dp_bench" eval --checkpoint exported --output bad3
