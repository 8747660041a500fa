"""Run folders as values: what is read, and what is refused."""

import hashlib
import json
import os
import pathlib

import pytest

import dp_bench

SHIPPED = pathlib.Path(__file__).parents[2] / "models/pusht_unet_hybrid/training/seed_42"
ROW = {
    "episode": 0,
    "split": "test",
    "seed": 100000,
    "score": 1.0,
    "success": True,
    "n_steps": 7,
    "trace_hash": "ab",
    "failure_reason": None,
    "video": "media/test_100000.mp4",
    "metrics": {"coverage": 0.96},
    "course": {"first_reward": 0.1, "last_reward": 1.0, "best_step": 7, "is_terminated": True},
    "success_steps": {"first": 7, "longest": 1, "at_end": 1},
}
BROKEN = ROW | {
    "seed": 100001, "episode": 1, "score": 0.0, "success": False, "failure_reason": "threw", "video": None, "metrics": {},
    "success_steps": None,
}  # fmt: skip


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def folder(tmp_path):
    """A finished evaluation of two episodes."""
    config, episodes = json.dumps({"name": "x"}), lines(ROW, BROKEN)
    files = {
        "config.json": config,
        "manifest.json": json.dumps({"run_id": "1" * 16, "config_sha256": sha256(config)}),
        "episodes.jsonl": episodes,
        "eval_log.json": json.dumps(
            {"run_id": "1" * 16, "episodes_sha256": sha256(episodes), "test/success_rate": 0.5, "test/n_episodes": 2}
        ),
        "logs.json.txt": lines({"train_loss": 0.5, "epoch": 0}, {"train_loss": 0.25, "epoch": 1}) + '{"train_l',
        "media/test_100000.mp4": "video",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def refused(folder, property_name, message):
    with pytest.raises(dp_bench.DataError, match=message) as error:
        getattr(dp_bench.RunFolder(folder), property_name)
    assert error.value.exit_code == 6
    return str(error.value)


def test_reads_the_files_of_an_evaluation(folder):
    run = dp_bench.RunFolder(folder)
    assert run.config == {"name": "x"} and run.manifest["run_id"] == "1" * 16 and run.is_finished
    assert run.metrics["test/success_rate"] == 0.5
    first, second = run.episodes
    assert (first.seed, first.score, first.success, first.metrics) == (100000, 1.0, True, {"coverage": 0.96})
    assert first.course.best_step == 7 and first.course.lost_step is None
    assert first.success_steps.first == 7
    assert second.failure_reason == "threw" and second.n_stale_steps == 0
    assert run.videos == {("test", 100000): folder / "media/test_100000.mp4"}
    assert os.fspath(run) == str(folder)


def test_the_log_ends_before_a_line_that_was_cut_off(folder):
    assert [row["train_loss"] for row in dp_bench.RunFolder(folder).log] == [0.5, 0.25]


def test_reads_the_shipped_training():
    run = dp_bench.RunFolder(SHIPPED)
    assert len(run.episodes) == 50 and len(run.episodes.of("test")) == 50 and len(run.log) == 14400
    assert sum(episode.success for episode in run.episodes.of("test")) == run.metrics["test/n_success"]
    assert run.videos == {} and run.checkpoints == {} and run.seeds == {}


def test_episodes_are_a_table(folder):
    episodes = dp_bench.RunFolder(folder).episodes
    columns = episodes.to_dict()
    assert columns["seed"] == [100000, 100001] and columns["metrics.coverage"] == [0.96, None]
    assert columns["course.is_terminated"] == [True, True]
    rows = episodes.to_dict("records")
    assert [row["failure_reason"] for row in rows] == [None, "threw"] and set(rows[0]) == set(columns)
    assert episodes[1:] == dp_bench.Episodes([episodes[1]])
    with pytest.raises(ValueError, match="expected orient"):
        episodes.to_dict("split")


def test_pandas_takes_episodes_and_log(folder):
    pandas = pytest.importorskip("pandas")
    run = dp_bench.RunFolder(folder)
    frame = pandas.DataFrame(run.episodes)
    assert frame["score"].mean() == 0.5 and list(frame["seed"]) == [100000, 100001]
    assert pandas.DataFrame(run.episodes.to_dict())["metrics.coverage"].max() == 0.96
    assert list(pandas.DataFrame(run.log)["train_loss"]) == [0.5, 0.25]


def test_an_unfinished_evaluation_offers_its_journal(folder):
    (folder / "eval_log.json").unlink()
    (folder / "episodes.jsonl").unlink()
    journal = folder / "episodes.partial.jsonl"
    journal.write_text(lines({"run_id": "1" * 16}, BROKEN) + json.dumps(ROW)[:50])
    assert "dp_bench.evaluate(resume=" in refused(folder, "episodes", "is not finished")
    assert [episode.seed for episode in dp_bench.RunFolder(folder).partial_episodes] == [100001]
    journal.write_text(lines({"run_id": "2" * 16}, ROW))
    refused(folder, "partial_episodes", "manifest.json is of run 1+, episodes.partial.jsonl of 2+")


def test_a_finished_evaluation_has_no_journal_and_offers_its_result(folder):
    run = dp_bench.RunFolder(folder)
    assert run.partial_episodes == run.episodes and len(run.partial_episodes) == 2
    (folder / "eval_log.json").unlink()
    refused(folder, "partial_episodes", "cannot read .*episodes.partial.jsonl: No such file")


def test_an_interval_needs_a_number_of_successes_that_can_be():
    for n_success, n in ((3, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match=f"found {n_success} of {n}"):
            dp_bench.wilson_interval(n_success, n)


def test_files_of_several_runs_are_refused(folder):
    (folder / "episodes.jsonl").write_text(lines(ROW))
    refused(folder, "episodes", r"not of one run: expected a episodes.jsonl with the SHA-256")
    (folder / "config.json").write_text("{}")
    refused(folder, "episodes", "expected a config.json with the SHA-256")


def test_missing_files_are_named(folder, tmp_path):
    with pytest.raises(dp_bench.DataError, match="found no folder") as error:
        dp_bench.RunFolder(tmp_path / "nowhere")
    assert error.value.exit_code == 6
    (folder / "manifest.json").unlink()
    refused(folder, "manifest", "has no manifest.json")
    (folder / "logs.json.txt").unlink()
    refused(folder, "log", "cannot read .*logs.json.txt: No such file")
    (folder / "episodes.jsonl").unlink()
    refused(folder, "episodes", r"a training without one is evaluated by dp_bench.evaluate")
    (folder / "multi_run.json").write_text('{"seeds": [42, 43]}')
    refused(folder, "metrics", "use one of RunFolder.seeds")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": None}, "score: expected a number, found null"),
        ({"score": "1"}, 'score: expected a number, found "1"'),
        ({"success": 1}, "success: expected true or false, found 1"),
        ({"seed": True}, "seed: expected an integer, found true"),
        ({"seed": 1.0}, "seed: expected an integer, found 1.0"),
        ({"metrics": [1]}, r"metrics: expected an object, found \[1\]"),
        ({"metrics": {"coverage": "x"}}, "metrics: coverage: expected a number"),
        ({"split": 3}, "split: expected text, found 3"),
    ],
)
def test_an_episode_with_a_wrong_field_is_refused_by_its_line(folder, change, message):
    (folder / "manifest.json").unlink()  # as files from before version 0.2, which have no hashes
    (folder / "episodes.jsonl").write_text(lines(ROW, ROW | change))
    refused(folder, "episodes", "episodes.jsonl:2: " + message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a JSON object, found Expecting value"),
        ("[]", r"expected a JSON object, found \[\]"),
        ('{"a": NaN}', "NaN, which is not JSON"),
        ('{"a": 1e999}', "the number 1e999, which is too large"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ("9" * 5000, "expected a JSON object"),
        (b"\xff{}", "expected UTF-8"),
    ],
)
def test_a_damaged_file_is_refused(folder, text, message):
    (folder / "config.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(folder, "config", "config.json: .*" + message)


def test_what_is_no_file_or_too_large_is_refused(folder):
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    refused(folder, "config", "expected a regular file")
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    refused(folder, "config", "expected a regular file")
    (folder / "manifest.json").write_text("")
    os.truncate(folder / "manifest.json", 1 << 40)
    refused(folder, "manifest", "expected at most 67108864 bytes, found 1099511627776")


def test_an_episode_that_was_cut_off_is_not_dropped(folder):
    (folder / "manifest.json").unlink()
    (folder / "episodes.jsonl").write_text(lines(ROW) + json.dumps(BROKEN)[:-9])
    refused(folder, "episodes", "episodes.jsonl:2: expected a JSON object")


def test_a_video_outside_the_folder_is_not_offered(folder):
    outside = folder.parent / "outside.mp4"
    outside.write_text("video")
    (folder / "manifest.json").unlink()
    for video in ("../outside.mp4", "media/../../outside.mp4", str(outside)):
        (folder / "episodes.jsonl").write_text(lines(ROW | {"video": video}))
        assert dp_bench.RunFolder(folder).videos == {}


def test_lists_the_checkpoints_that_are_complete(folder):
    names = ["epoch=0002-test_mean_score=0.500", "epoch=0010", "epoch=9999", "epoch=10000", "latest"]
    for name in (*names[::-1], "latest.tmp.x7", "epoch=0099"):
        (folder / "checkpoints" / name).mkdir(parents=True)
        (folder / "checkpoints" / name / "ema.safetensors").touch()
        if name != "epoch=0099":
            (folder / "checkpoints" / name / "manifest.json").touch()
    checkpoints = dp_bench.RunFolder(folder).checkpoints
    assert list(checkpoints) == names
    assert checkpoints["latest"] == folder / "checkpoints/latest"
