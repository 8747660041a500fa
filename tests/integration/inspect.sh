#!/usr/bin/env bash
# dp_bench inspect: shapes, parameters and memory of policies, as text and as JSON; bad input.
# Usage: inspect.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
inspect=("$1" inspect --config-dir "$2")
enter_scratch_folder

expect_json() {  # expect_json EXPRESSION COMMAND...: a Python expression over `found`, and stage(name)
  local expression=$1
  shift
  "$@" --json >found.json 2>errors.txt || fail "$*: $(cat errors.txt)"
  python3 - "$expression" <<'PYTHON' || fail "$* does not satisfy $expression: $(cat found.json)"
import json, sys
found = json.load(open("found.json"))
stage = lambda name: next(s["shape"] for s in found["stages"] if s["name"] == name)
sys.exit(not eval("(" + sys.argv[1] + ")"))
PYTHON
}

unet=("${inspect[@]}" --policy unet_hybrid --env point_mass)
transformer=("${inspect[@]}" --policy transformer --env kuavo_dualarm)

echo "the U-Net's data flow has the shapes of the config"
"${unet[@]}" >unet.txt 2>&1 || fail "$(cat unet.txt)"
for line in "condition  *\[1, 2, 4\]  *float32" "timesteps  *\[1\]  *int64" "unet: down 3  *\[1, 256, 4\]" \
            "unet: up 1  *\[1, 64, 16\]" "predicted noise  *\[1, 16, 2\]" "loss  *\[\]" \
            "^total  *4,444,866$" "float32 on cpu" "^  *128 .* estimated$" "^  *8 .* measured$"; do
  grep -q -- "$line" unet.txt || fail "no line '$line': $(cat unet.txt)"
done

echo "so has the transformer's, and its modules add up to the total"
expect_json 'stage("normalized action") == [3, 16, 16] and stage("predicted action") == [3, 16, 16]
             and stage("transformer: condition tokens") == [3, 3, 192]
             and stage("transformer: decoder layer 4") == [3, 16, 192]
             and found["parameters"] == 2685520
             and sum(m["parameters"] for m in found["modules"] if m["depth"] == 1) == 2685520' \
  "${transformer[@]}" --batch-size 3

echo "the RGB-D policy has the expected data flow and size"
# the sizes of what follows the images do not depend on theirs; smaller ones take a quarter of the time
small_images="policy.params.resize_shape=[42,56]"
grep -q '"resize_shape": \[210, 280\]' "$2/policy/rgbd_fusion.json" || fail "other images than documented"
cameras="head_cam_h wrist_cam_l wrist_cam_r"
expect_json 'all(stage("observation.images." + camera) == [2, 2, 3, 480, 640] for camera in "'"$cameras"'".split())
             and all(stage("observation.depth.depth_" + camera) == [2, 2, 1, 480, 640] for camera in "hlr")
             and stage("  cropped") == [2, 2, 3, 420, 560] and stage("  resized, normalized") == [2, 2, 3, 42, 56]
             and stage("colour features") == [4, 3, 128] and stage("depth features") == [4, 3, 128]
             and stage("fused features") == [2, 2, 768]
             and stage("observation.state") == [2, 2, 16] and stage("state features") == [2, 2, 128]
             and stage("condition") == [2, 2, 896] and stage("normalized action") == [2, 16, 16]
             and stage("transformer: timestep token") == [2, 1, 512]
             and stage("transformer: action tokens") == [2, 16, 512]
             and stage("transformer: condition tokens") == [2, 3, 512]
             and stage("transformer: memory") == [2, 3, 512]
             and stage("transformer: decoder layer 4") == [2, 16, 512]
             and "transformer: decoder layer 5" not in [s["name"] for s in found["stages"]]
             and abs(found["parameters"] / 44.2e6 - 1) < 0.01' \
  "${inspect[@]}" --policy rgbd_fusion --env kuavo_dualarm --obs rgbd --batch-size 2 --batch-sizes 1 "$small_images"
expect_json 'stage("condition") == [1, 2, 896] and stage("transformer: decoder layer 12") == [1, 16, 384]
             and abs(found["parameters"] / 52.7e6 - 1) < 0.01' \
  "${inspect[@]}" --policy rgbd_kuavo --env kuavo_dualarm --obs rgbd --batch-size 1 --batch-sizes 1 "$small_images"

echo "the output follows the config"
expect_json 'stage("normalized action") == [1, 32, 2] and "unet: down 3" not in [s["name"] for s in found["stages"]]' \
  "${unet[@]}" horizon=32 "policy.params.down_dims=[16,32]" policy.params.n_groups=4

echo "with inpainting, a batch has the observations of the whole horizon"
expect_json 'stage("agent_pos") == [1, 16, 2] and stage("condition") == [1, 16, 4]
             and stage("normalized action") == [1, 16, 2]' "${unet[@]}" policy.params.obs_as_global_cond=false

echo "memory grows by the parameters and by the batch"
expect_json 'found["memory"]["gradients"] == 4 * found["parameters"]
             and found["memory"]["optimizer"] == 8 * found["parameters"]
             and found["memory"]["ema"] == 0
             and [s["batch_size"] for s in found["memory"]["steps"]] == [2, 100]
             and [s["is_estimated"] for s in found["memory"]["steps"]] == [False, True]
             and found["memory"]["steps"][1]["batch"] == 50 * found["memory"]["steps"][0]["batch"]' \
  "${transformer[@]}" --batch-sizes 2,100 training.use_ema=false

echo "estimates are within 10 % of the measurement"
for policy in unet transformer; do
  declare -n command=$policy
  expect_exit 0 "checked at batch size 128: .* apart" "${command[@]}" --check 128
done

echo "a policy without stages is no error"
expect_exit 0 "names no stages" "${inspect[@]}" --policy constant_action --env point_mass

echo "a dataset: of a task, and by its path"
demonstrations=(--env point_mass collect.n_episodes=5 collect.start_seed=1000020)
expect_json 'found["plugin"] == "point_mass" and found["max_steps"] > 0' "${inspect[@]}" "${demonstrations[@]}"  # it collects nothing
expect_exit 2 "'point_mass' has none; dp_bench collect makes one" "${inspect[@]}" "${demonstrations[@]}" --html data.html
"$1" collect --config-dir "$2" "${demonstrations[@]}" >collect.txt 2>&1 || fail "$(cat collect.txt)"
expect_json 'found["n_episodes"] == 5 and found["n_problems"] == 0 and [k["name"] for k in found["keys"]] == ["action", "agent_pos", "goal"]' \
  "${inspect[@]}" "${demonstrations[@]}" --html data.html
grep -q "<svg" data.html || fail "the page has no plot"
expect_exit 0 "5 episodes" "$1" inspect --dataset data/point_mass-*.zarr
expect_exit 6 "nowhere.zarr" "$1" inspect --dataset nowhere.zarr

echo "a checkpoint"
expect_json 'found["policy"] == "unet_hybrid" and found["state"]["epoch"] == 16 and found["parameters"] == 4559554
             and found["normalizer"]["action"]["mode"] == "limits" and found["files"][0]["n_tensors"] == 148' \
  "$1" inspect --checkpoint "$2/../models/pusht_unet_hybrid"
expect_exit 6 "manifest.json" "$1" inspect --checkpoint "$2"
expect_exit 2 "--html writes a page about a dataset, or with --attention" \
  "$1" inspect --checkpoint "$2/../models/pusht_unet_hybrid" --html model.html
expect_exit 2 "--html writes a page about a dataset, or with --attention" "${unet[@]}" --html model.html
for option in "--env point_mass" "--policy unet_hybrid" "--dataset nowhere.zarr" "--config nowhere.json" "--check 8"; do
  # shellcheck disable=SC2086
  expect_exit 2 "inspect --checkpoint does not use ${option%% *}" \
    "${inspect[@]}" --checkpoint "$2/../models/pusht_unet_hybrid" $option
done
expect_exit 2 "inspect --dataset alone does not use --batch-size" "$1" inspect --dataset data/point_mass-*.zarr --batch-size 8
expect_exit 2 "inspect of an env or its dataset does not use --check" "${inspect[@]}" --env point_mass --check 8

echo "what the actions of a transformer look at"
"$1" train --config-dir "$2" --policy transformer --env point_mass policy.params.n_layer=1 policy.params.n_head=2 \
  policy.params.n_emb=16 collect.n_episodes=4 training.num_epochs=1 training.rollout_every=0 dataloader.batch_size=32 \
  --output trained >train.txt 2>&1 || fail "$(cat train.txt)"
attention=("$1" inspect --checkpoint trained --attention)
expect_json 'found["policy"] == "transformer" and found["denoising_steps"] > 1 and "seed 100000" in found["observation"]
             and found["maps"][1]["name"] == "decoder layer 1, actions to condition"
             and found["maps"][1]["columns"] == ["timestep", "agent_pos t-1", "goal t-1", "agent_pos t", "goal t"]
             and len(found["maps"][1]["heads"]) == 2
             and all(abs(sum(row) - 1) < 1e-5 for m in found["maps"] for head in m["heads"] for row in head)' \
  "${attention[@]}" --html attention.html
grep -q "<td class=\"cell\"" attention.html || fail "the page has no heat map"
expect_exit 0 "first observation of seed 100007" "${attention[@]}" env_runner.test_start_seed=100007
expect_exit 0 "demonstration 1, step 3" "${attention[@]}" --episode 1 --step 3
expect_exit 2 "expected 0 to 3, found 9" "${attention[@]}" --episode 9
expect_exit 2 "no attention: expected transformer" "$1" inspect --checkpoint "$2/../models/pusht_unet_hybrid" --attention

echo "bad input gives a message and its exit code"
expect_exit 2 "there is no config of this name" "${inspect[@]}" --policy unet_hybri --env point_mass
expect_exit 2 "nothing to inspect" "${inspect[@]}"
expect_exit 2 "nothing to run: give --policy and --env" "${inspect[@]}" --policy unet_hybrid
expect_exit 2 "normalizer.defaut" "${unet[@]}" normalizer.defaut=gaussian
expect_exit 2 "down_dims" "${unet[@]}" "policy.params.down_dim=[16]"
for option in --batch-size --batch-sizes --check; do
  expect_exit 2 "not in range" "${unet[@]}" "$option" 0
done

echo "an env without a dataset is described, with a shape_meta for its task config"
cat >bare.json <<'JSON'
{"name": "bare", "env": {"plugin": "point_mass", "params": {"image_size": 12}}}
JSON
expect_exit 0 '^agent_pos *low_dim *\[2\] *float32' "${inspect[@]}" --config bare.json
grep -q '"image":{"shape":\[3,12,12\],"type":"rgb"}' out.txt || fail "no shape_meta: $(cat out.txt)"
expect_json 'found["plugin"] == "point_mass" and found["shape_meta"]["action"]["shape"] == [2]
             and found["abilities"]["has_expert"] and len(found["action_low"]) == 2' "${inspect[@]}" --config bare.json
expect_exit 2 "--html writes a page about a dataset, and 'bare' has none" "${inspect[@]}" --config bare.json --html page.html
