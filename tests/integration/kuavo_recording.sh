#!/usr/bin/env bash
# A dataset in the layout of real Kuavo recordings, which LeRobot wrote: what inspect says about it, and a training of
# rgbd_fusion on its colours and depths.
# Usage: kuavo_recording.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
recording=$(dirname "$(readlink -f "$0")")/../data/lerobot/kuavo_recording
enter_scratch_folder
export OMP_NUM_THREADS=1
"$dp_bench" plugins >plugins.txt
grep -q lerobot plugins.txt || { echo "SKIPPED: the plugin lerobot was not built"; exit 77; }

echo "inspect proposes a shape_meta"
"$dp_bench" inspect --dataset "$recording" --json >inspected.json || [ $? -eq 1 ]  # 1: the data have faults
"$dp_bench" inspect --dataset "$recording" >inspected.txt || [ $? -eq 1 ]
grep -q '"head_cam_h": {"shape":\[3,480,640\],"type":"rgb"}' inspected.txt || fail "$(cat inspected.txt)"
python3 - <<'PYTHON' || fail "$(head -c 2000 inspected.json)"
import json, pathlib
inspected = json.loads(pathlib.Path("inspected.json").read_text())
meta = inspected["shape_meta"]
assert meta["action"] == {"shape": [16]} and meta["obs"]["state"] == {"shape": [16], "type": "low_dim"}
assert meta["obs"]["head_cam_h"] == {"shape": [3, 480, 640], "type": "rgb"}
assert inspected["n_episodes"] == 2 and inspected["fps"] == 10
PYTHON

echo "a training of the shipped experiment, smaller"
train=("$dp_bench" train --config "$configs/experiment/kuavo_recording.json" --dataset "$recording" dataset.val_ratio=0.5
       dataloader.batch_size=2 val_dataloader.batch_size=2 dataloader.num_workers=1 val_dataloader.num_workers=1
       policy.params.obs_encoder.resnet_width=16 policy.params.obs_encoder.resnet_stages=3 policy.params.denoiser.n_layer=1
       training.num_epochs=2 training.max_train_steps=2 training.max_val_steps=1 training.lr_warmup_steps=1
       training.checkpoint_every=1)
"${train[@]}" --output run >train.txt 2>&1 || fail "$(cat train.txt)"
! grep -q warning train.txt || fail "$(grep warning train.txt)"
grep -q '"val_loss"' run/logs.json.txt || fail "there is no validation loss: $(cat run/logs.json.txt)"
compgen -G "run/checkpoints/epoch=*-val_loss=*" >/dev/null || fail "no best checkpoint: $(ls run/checkpoints)"

echo "depth without its scale is refused"
sed "s#\"\.\./#\"$configs/#g; s/, \"mm_per_level\": 5.88//" "$configs/experiment/kuavo_recording.json" >without_scale.json
expect_exit 2 "observation.depth_h.*give mm_per_level" "$dp_bench" train --config without_scale.json --dataset "$recording" \
  --output refused
[ ! -e refused ] || fail "a refused training left its folder"
