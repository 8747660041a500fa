#!/usr/bin/env bash
# Datasets in other formats: there and back without loss, also when the program is killed many times on the way, and
# what is refused; videos, encoded and copied. `collect --format` does the same for new demonstrations.
# Usage: dataset_convert.sh <dp_bench program> <configs folder>
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/expect.sh"
dp_bench=$1
configs=$2
n_kills=${DPB_KILLS:-12}
enter_scratch_folder
"$dp_bench" plugins >plugins.txt
grep -q '^writer *lerobot' plugins.txt || { echo "SKIPPED: the writer of LeRobot datasets was not built"; exit 77; }

collect=("$dp_bench" collect --config-dir "$configs" --env point_mass --episodes 300)
"${collect[@]}" --output source.zarr >collect.txt 2>&1 || fail "$(cat collect.txt)"

same_arrays() {  # same_arrays A.zarr B.zarr: their data and ends of episodes; LeRobot adds names of channels
  for folder in data meta; do diff -r -x .zattrs "$1/$folder" "$2/$folder" >diff.txt || fail "$1 and $2 differ: $(head -3 diff.txt)"; done
}

echo "there and back"
"$dp_bench" dataset convert source.zarr whole --format lerobot >convert.txt 2>&1 || fail "$(cat convert.txt)"
grep -q "whole: 300 episodes" convert.txt || fail "$(cat convert.txt)"
"$dp_bench" dataset convert whole back.zarr --format zarr >convert.txt 2>&1 || fail "$(cat convert.txt)"
same_arrays source.zarr back.zarr
"$dp_bench" dataset convert whole older/ --format lerobot --param version=v2.1 >convert.txt 2>&1 || fail "$(cat convert.txt)"
"$dp_bench" dataset convert older newer --format lerobot >convert.txt 2>&1 || fail "$(cat convert.txt)"
diff -r whole newer >diff.txt || fail "v3.0, v2.1, v3.0: $(head -3 diff.txt)"

echo "killed $n_kills times"
for format in lerobot zarr hdf5; do
  input=source.zarr
  [ $format != zarr ] || input=whole
  RANDOM=7
  for ((i = 0; i < n_kills; i++)); do
    timeout -s KILL "$(printf 0.%02d $((RANDOM % 30 + 5)))" "$dp_bench" dataset convert $input "killed_$format" --format $format \
      >killed.txt 2>&1 && break
    ! grep -q "killed_$format exists" killed.txt || break  # it was killed when all was done
  done 2>/dev/null  # bash reports every kill
  "$dp_bench" dataset convert $input "killed_$format" --format $format >convert.txt 2>&1 ||
    grep -q "killed_$format exists" convert.txt || fail "$(cat convert.txt)"
  echo "  $format: finished after $i kills"
done
diff -r whole killed_lerobot >diff.txt || fail "after kills: $(head -3 diff.txt)"
same_arrays source.zarr killed_zarr
"$dp_bench" dataset convert source.zarr whole.hdf5 --format hdf5 >convert.txt 2>&1 || fail "$(cat convert.txt)"
cmp whole.hdf5 killed_hdf5
[ ! -e killed_lerobot.unfinished ] && [ ! -e killed_hdf5.unfinished ] || fail "the unfinished folder is still there"

echo "videos"
"$dp_bench" collect --config-dir "$configs" --env pusht --obs image --episodes 3 --output images.zarr >collect.txt 2>&1 ||
  fail "$(cat collect.txt)"
images=(images.zarr images.zarr images.zarr images.zarr)
"$dp_bench" dataset merge "${images[@]}" --output repeated.zarr >merge.txt 2>&1 || fail "$(cat merge.txt)"
video=("$dp_bench" dataset convert repeated.zarr)
expect_exit 0 "observation.image: h264 video, encoded with loss (libx264, crf 30)" \
  "${video[@]}" video --format lerobot --param codec=h264 --param video_files_size_in_mb=0.05
[ -f video/videos/observation.image/chunk-000/file-001.mp4 ] || fail "the videos are in one file: $(find video)"
expect_exit 0 "observation.image: h264 video, copied bit for bit" \
  "$dp_bench" dataset convert video video_v21 --format lerobot --param version=v2.1
for codec in h264 auto; do  # encoded, and copied
  input=repeated.zarr
  [ $codec = h264 ] || input=video_v21
  RANDOM=9
  for ((i = 0; i < n_kills / 2; i++)); do
    timeout -s KILL "0.$((RANDOM % 50 + 10))" "$dp_bench" dataset convert $input "video_$codec" --format lerobot \
      --param codec=$codec --param video_files_size_in_mb=0.05 >killed.txt 2>&1 && break
    ! grep -q "video_$codec exists" killed.txt || break
  done 2>/dev/null
  "$dp_bench" dataset convert $input "video_$codec" --format lerobot --param codec=$codec --param video_files_size_in_mb=0.05 \
    >convert.txt 2>&1 || grep -q "video_$codec exists" convert.txt || fail "$(cat convert.txt)"
  echo "  $codec: finished after $i kills"
done
for copy in video_h264 video_auto; do diff -r video $copy >diff.txt || fail "$copy, after kills: $(head -3 diff.txt)"; done
"$dp_bench" dataset convert video_auto video_v21_again --format lerobot --param version=v2.1 >convert.txt 2>&1 || fail "$(cat convert.txt)"
diff -r video_v21 video_v21_again >diff.txt || fail "v2.1, v3.0, v2.1: $(head -3 diff.txt)"

"$dp_bench" dataset split video video_train video_val --val-ratio 0.25 >split.txt 2>&1 || fail "$(cat split.txt)"
"$dp_bench" dataset merge video_train video_val --output video_merged >merge.txt 2>&1 || fail "$(cat merge.txt)"
for text in split merge; do
  grep -q "observation.image: h264 video, copied bit for bit" $text.txt || fail "$(cat $text.txt)"
done
expect_exit 2 "videos cannot be copied: steps of the episodes are left out" "$dp_bench" dataset trim video other --drop-first 2
expect_exit 0 "hevc video, encoded again with loss" "$dp_bench" dataset trim video video_short --drop-first 2 --param codec=hevc
"$dp_bench" dataset convert video video_png --format lerobot --param codec=png >convert.txt 2>&1 || fail "$(cat convert.txt)"
for format in video video_png; do "$dp_bench" dataset convert $format $format.zarr --format zarr >convert.txt 2>&1 || fail "$(cat convert.txt)"; done
same_arrays video.zarr video_png.zarr

echo "interrupted by Ctrl-C"
set -m
"$dp_bench" dataset convert source.zarr interrupted --format lerobot >interrupted.txt 2>&1 &
for ((i = 0; i < 200; i++)); do [ -e interrupted.unfinished ] && break || sleep 0.05; done  # it handles signals by now
kill -INT $! 2>/dev/null || true
status=0
wait $! || status=$?
set +m
[ $status -eq 75 ] || [ $status -eq 0 ] || fail "ended with $status: $(cat interrupted.txt)"
[ $status -eq 0 ] || expect_exit 2 "with other features" "$dp_bench" dataset convert source.zarr interrupted --format lerobot \
  --map observation.state=goal --map observation.environment_state=agent_pos
[ $status -eq 0 ] || "$dp_bench" dataset convert source.zarr interrupted --format lerobot >convert.txt 2>&1 ||
  fail "$(cat convert.txt)"
diff -r whole interrupted >diff.txt || fail "after Ctrl-C: $(head -3 diff.txt)"

echo "split, merged and trimmed"
"$dp_bench" dataset split source.zarr train.zarr val.zarr --val-ratio 0.2 >split.txt 2>&1 || fail "$(cat split.txt)"
grep -q "train.zarr: 240 episodes" split.txt && grep -q "val.zarr: 60 episodes" split.txt || fail "$(cat split.txt)"
"$dp_bench" dataset trim source.zarr first.zarr --episodes 0-99 >trim.txt 2>&1 || fail "$(cat trim.txt)"
"$dp_bench" dataset trim whole rest --episodes 100-298,299 >trim.txt 2>&1 || fail "$(cat trim.txt)"
[ -f rest/meta/info.json ] || fail "the format of the source is not the default"
"$dp_bench" dataset merge first.zarr rest --output merged.zarr >merge.txt 2>&1 || fail "$(cat merge.txt)"
same_arrays source.zarr merged.zarr
"$dp_bench" dataset trim source.zarr short.zarr --episodes 7 --drop-first 2 --drop-last 1 >trim.txt 2>&1 || fail "$(cat trim.txt)"
"$dp_bench" dataset trim source.zarr long.zarr --episodes 7 >long.txt 2>&1 || fail "$(cat long.txt)"
steps() { sed -n 's/.* episodes, \([0-9]*\) steps.*/\1/p' "$1"; }
[ $(($(steps trim.txt) + 3)) -eq "$(steps long.txt)" ] || fail "$(cat trim.txt long.txt)"

echo "looked at"
expect_exit 0 "rest: lerobot, 200 episodes" "$dp_bench" dataset info rest
"$dp_bench" dataset info rest >info.txt
grep -q "observation.state: agent_pos.0, agent_pos.1" info.txt && grep -q '"source": 200 episodes' info.txt || fail "$(cat info.txt)"
expect_exit 0 "REJECTED *data.not_finite" "$dp_bench" dataset check whole

python3 - <<'PYTHON'
import json, pathlib
for name, change in (("rest", "stats.json"), ("older", "episodes_stats.jsonl")):
    path = pathlib.Path(name) / "meta" / change
    lines = [json.loads(path.read_text())] if change == "stats.json" else [json.loads(line) for line in path.open()]
    for line in lines:
        stats = line.get("stats", line)["observation.state"]
        stats["max"][1] += 5.0
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
PYTHON
for changed in rest older; do
  expect_exit 1 'agent_pos\[1\] is .* in the data, .* in the files (episode ' "$dp_bench" dataset check $changed
done

cp -r video_v21 lacking
python3 - <<'PYTHON'
import json, pathlib
lengths = [json.loads(line)["length"] for line in open("lacking/meta/episodes.jsonl")]
longest, shortest = lengths.index(max(lengths)), lengths.index(min(lengths))
videos = {int(path.stem[-6:]): path for path in pathlib.Path("lacking").rglob("episode_*.mp4")}
videos[longest].write_bytes(videos[shortest].read_bytes())
pathlib.Path("lacking.txt").write_text(f"in episode {longest}, frame {lengths[shortest]} of 'observation.image'")
PYTHON
expect_exit 6 "$(cat lacking.txt)" "$dp_bench" dataset check --all-images lacking

echo "tasks of LeRobot datasets"
"$dp_bench" dataset convert source.zarr told --format lerobot --param version=v2.1 --task-text reach >convert.txt 2>&1 || fail "$(cat convert.txt)"
sed -i 's/"reach"/""/' told/meta/*.jsonl
"$dp_bench" dataset convert told silent --format lerobot --param version=v2.1 >convert.txt 2>&1 || fail "$(cat convert.txt)"
grep -q '"task":""' silent/meta/tasks.jsonl || fail "an empty task became $(cat silent/meta/tasks.jsonl)"
sed -i 's/""/"reach"/' told/meta/tasks.jsonl
sed -i 's/\[""\]/["grasp","reach"]/' told/meta/episodes.jsonl  # in any order; the rows say which
echo '{"task_index": 1, "task": "grasp"}' >>told/meta/tasks.jsonl
"$dp_bench" dataset convert told first --format lerobot --param version=v2.1 >convert.txt 2>&1 || fail "$(cat convert.txt)"
grep -q '"task":"reach"' first/meta/tasks.jsonl && ! grep -q grasp first/meta/*.jsonl || fail "the task is not that of the rows: $(cat first/meta/*.jsonl)"

echo "what is left out, and what is kept"
"$dp_bench" dataset convert told told.zarr --format zarr >convert.txt 2>&1 || fail "$(cat convert.txt)"
expect_exit 0 '"reach": 300 episodes' "$dp_bench" dataset info told.zarr
"$dp_bench" dataset trim told.zarr few.zarr --episodes 0-1 >trim.txt 2>&1 || fail "$(cat trim.txt)"
expect_exit 0 '"reach": 2 episodes' "$dp_bench" dataset info few.zarr
"$dp_bench" dataset info source.zarr >info.txt
! grep -q '"' info.txt || fail "a task of a dataset without tasks: $(cat info.txt)"
cp -r "$configs/../tests/data/lerobot/v30_av1" rewarded
for format in zarr hdf5; do
  expect_exit 0 "left out, because they are no keys: .*next.done" "$dp_bench" dataset convert rewarded rewarded.$format --format $format
done
"$dp_bench" dataset convert rewarded rewarded_again --format lerobot >convert.txt 2>&1 || fail "$(cat convert.txt)"
grep -q "next.done: copied" convert.txt && ! grep -q "no keys" convert.txt || fail "$(cat convert.txt)"
grep -q '"robot_type": "kuavo4pro"' rewarded_again/meta/info.json || fail "the copy has another robot_type"
expect_exit 0 "rewards, dones, states, next_obs, mask and env_args are left out" \
  "$dp_bench" dataset trim "$configs/../tests/data/hdf5/robomimic.hdf5" few.hdf5 --episodes 0

echo "what is refused"
expect_exit 2 "there is no episode 300" "$dp_bench" dataset trim source.zarr other --episodes 5,300
expect_exit 2 "expected numbers and ranges" "$dp_bench" dataset trim source.zarr other --episodes 5-
expect_exit 2 "none are left" "$dp_bench" dataset trim source.zarr other --drop-first 10000
expect_exit 2 "leaves no episode" "$dp_bench" dataset split source.zarr other others --val-ratio 0
expect_exit 2 "found 'other/../twice/' twice" "$dp_bench" dataset split source.zarr twice other/../twice/ --val-ratio 0.2
"$dp_bench" collect --config-dir "$configs" --env pusht --episodes 1 --output pusht.zarr >collect_pusht.txt 2>&1 || fail "$(cat collect_pusht.txt)"
expect_exit 2 "the same keys and rate" "$dp_bench" dataset merge source.zarr pusht.zarr --output other
cp -r "$configs/../tests/data/lerobot/v30_hevc" named
cp -r named swapped
sed -i 's/"shoulder"/"other"/; s/"elbow"/"shoulder"/; s/"other"/"elbow"/' swapped/meta/info.json
expect_exit 2 "is 'shoulder' in named, but 'elbow' in swapped" "$dp_bench" dataset merge named swapped --output other
cp -r named nested
cp -r named nameless
sed -i -z 's/\[\(\s*"shoulder",\s*"elbow",\s*"gripper"\s*\)\]/[[\1]]/' nested/meta/info.json
sed -i -z 's/\[\s*"shoulder",\s*"elbow",\s*"gripper"\s*\]/["joints"]/' nameless/meta/info.json
expect_exit 2 "is 'shoulder' in nested, but 'elbow' in swapped" "$dp_bench" dataset merge nameless nested swapped --output other
expect_exit 0 "'state' have names in nested, but not in nameless" "$dp_bench" dataset merge nested nameless --output joined
grep -q "its channels have no names, because \"names\" has \[\"joints\"\] for 3 numbers" out.txt || fail "$(cat out.txt)"
grep -qz '"names": \[\s*\[\s*"shoulder",' joined/meta/info.json || fail "a copy has other names than its source"
expect_exit 2 "whole exists" "$dp_bench" dataset convert source.zarr whole --format lerobot
expect_exit 2 "back.zarr exists" "$dp_bench" dataset convert whole back.zarr --format zarr
expect_exit 2 "no writer plugin 'parquet'" "$dp_bench" dataset convert source.zarr other --format parquet
expect_exit 2 "av1" "$dp_bench" dataset convert source.zarr other --format lerobot --param codec=vp9
expect_exit 2 "crf" "$dp_bench" dataset convert source.zarr other --format lerobot --param crf=99
expect_exit 2 "versoin" "$dp_bench" dataset convert source.zarr other --format lerobot --param versoin=v2.1
expect_exit 2 "has no such key" "$dp_bench" dataset convert source.zarr other --format lerobot --map observation.state=nothing
expect_exit 2 "key>=<value" "$dp_bench" dataset convert source.zarr other --format lerobot --param version
expect_exit 2 "only for --format lerobot" "$dp_bench" dataset convert source.zarr other --format zarr --map a=b
expect_exit 2 "nan is not a number" "$dp_bench" dataset convert source.zarr other --format lerobot --fps nan
[ ! -e other ] && [ ! -e other.unfinished ] || fail "a refused conversion left files"

echo "collected for LeRobot"
"${collect[@]}" --format lerobot --output collected >collect.txt 2>&1 || fail "$(cat collect.txt)"
"$dp_bench" dataset convert collected collected.zarr --format zarr >convert.txt 2>&1 || fail "$(cat convert.txt)"
same_arrays source.zarr collected.zarr
grep -qa point_mass collected/meta/tasks.parquet || fail "no task"
expect_exit 2 "collected" "${collect[@]}" --format lerobot --output collected
"$dp_bench" inspect --dataset collected >inspect.txt 2>&1 || [ $? -eq 1 ] || fail "$(cat inspect.txt)"
