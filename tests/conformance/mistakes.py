"""Planted mistakes of plugin authors: the conformance suite names each, says what to do, and finds nothing in a plugin
without one. No mistake may look like a fault of dp_bench.

Usage: mistakes.py <folder of the conformance programs> <folder of the mistaken plugins> <kind>...
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

# mistake: (the checks that are run, what the suite must say, its options). Every other check would cost time only.
SPEC = "*.SpecFitsTogether"
ENV = {
    "none": ("*", "PASSED"),
    # the spec, checked when the env is described or created
    "duplicate_keys": (SPEC, "each once, found 'image' before 'image'"),
    "unnamed_key": (SPEC, "expected a name for every key"),
    "observed_action": (SPEC, "expected another name for the observation 'action'"),
    "empty_shape": (SPEC, "'goal': expected a shape with sizes of 1 or more, found []"),
    "zero_size": (SPEC, "'goal': expected a shape with sizes of 1 or more, found [2, 0]"),
    "double_numbers": (SPEC, "'goal': expected float32, as every low_dim key, found [2] float64"),
    "channels_last": (SPEC, "'image': expected [3, height, width] uint8, as every rgb key, found [8, 8, 3] uint8"),
    "no_observations": (SPEC, "expected at least one observation, found none"),
    "action_matrix": (SPEC, "shape_meta.action: expected the name 'action' and a shape [Da] float32, found 'action' [2, 1]"),
    "action_name": (SPEC, "expected the name 'action'"),
    "no_control_hz": (SPEC, "control_hz: expected env steps per second, more than 0, found 0"),
    "nan_control_hz": (SPEC, "control_hz: expected env steps per second, more than 0, found nan"),
    "no_max_steps": (SPEC, "max_steps: expected 1 or more, found 0"),
    "short_bounds": (SPEC, "action_low: expected 2 numbers, one per dimension of the action, found 1"),
    "reversed_bounds": (SPEC, "dimension 0 of the action: expected finite bounds with action_low < action_high, found 1 and -1"),
    "infinite_bounds": (SPEC, "dimension 1 of the action: expected finite bounds"),
    "duplicate_metrics": (SPEC, "metrics: expected names that occur once, found 'distance'"),
    "strength_out_of_range": (SPEC, "perturbation 'wind': expected a strength from 0 to 1, found 2"),
    "declared_state": ("*.AStateContinuesBitForBit", "the env's spec declares state_size and there is no DoGetState"),
    "described_otherwise": (SPEC, "expected the spec that Describe gives for the same params, found another"),
    "describe_throws": ("*.IsDescribedAsItIs", "the plugin threw no model file"),
    "create_throws": (SPEC, "the plugin threw no graphics card"),
    "creates_nothing": (SPEC, "expected a new object, found null"),
    # what Reset, Step, Observe and Render do
    "ignored_seed": ("*.DifferentSeedsStartDifferently", "starts.size()"),
    "unseeded_randomness": ("*.EqualSeedsAndActionsGiveEqualEpisodes", "the observation 'position' after step 0 differs"),
    "uninitialised_memory": ("*.EqualSeedsAndActionsGiveEqualEpisodes", "another instance, whose new memory held other bytes"),
    "hidden_state": ("*.EqualSeedsAndActionsGiveEqualEpisodes", "differs"),
    "shared_state": ("*.EqualSeedsAndActionsGiveEqualEpisodes", "differs"),
    "observe_moves": ("*.LookingChangesNothing", "differs"),
    "render_moves": ("*.LookingChangesNothing", "differs"),
    "allocates_in_step": ("*.AllocatesNothingOnceWarm", "NumAllocations() - before"),
    "throw_in_reset": ("*.EveryNumberIsFinite", "the plugin threw the gripper is stuck"),
    "throw_in_step": ("*.EveryNumberIsFinite", "the plugin threw joint 7"),
    "throw_number": ("*.EveryNumberIsFinite", "the plugin threw something that is not a std::exception"),
    "hang_in_step": ("*.EveryNumberIsFinite", "env plugin 'mistaken', during Step: expected it to end within 1 s"),
    "hang_in_describe": ("*.EveryNumberIsFinite", "env plugin 'mistaken', during Describe: expected it to end within 1 s"),
    "hang_in_create": ("*.EveryNumberIsFinite", "env plugin 'mistaken', during Create: expected it to end within 1 s"),
    "hang_in_destructor": ("*.EveryNumberIsFinite", "env plugin 'mistaken', during its destructor: expected it to end within 1 s"),
    "crash_in_step": ("*.EveryNumberIsFinite", "the env plugin died with signal 6 (SIGABRT), and again", "--isolate"),
    "null_in_reset": ("*.EveryNumberIsFinite", "died with signal 11 (SIGSEGV) in Reset, in the episode of seed"),
    "exit_in_step": ("*.EveryNumberIsFinite", "called exit(0) in Step, in the episode of seed"),
    "quick_exit_in_step": ("*.EveryNumberIsFinite", "called quick_exit() in Step, in the episode of seed"),
    "bare_exit_in_step": ("*.EveryNumberIsFinite", "exited with code 0 before the last check had ended"),
    "nan_reward": ("*.EveryNumberIsFinite", "the env reported reward = nan, expected a finite number"),
    "no_metrics": ("*.EveryNumberIsFinite", "the env reported 0 metrics, its spec lists 1"),
    "infinite_metric": ("*.EveryNumberIsFinite", "the env reported distance = inf, expected a finite number"),
    "nan_observation": ("*.EveryNumberIsFinite", "'position': expected finite numbers, found nan in number 1 of 2"),
    "unwritten_number": ("*.EveryNumberIsFinite", "'position': expected 2 numbers, found number 1 unwritten"),
    "unwritten_image_row": ("*.EveryNumberIsFinite", "'image': expected 192 bytes, [8, 8, 3] uint8, found bytes unwritten"),
    "writes_after_buffer": ("*.EveryNumberIsFinite", "'position': expected 8 bytes, [2] float32, found a write after them"),
    "writes_before_buffer": ("*.EveryNumberIsFinite", "'position': expected 8 bytes, [2] float32, found a write before them"),
    "writes_after_image": ("*.EveryNumberIsFinite", "'image': expected 192 bytes, [8, 8, 3] uint8, found a write after them"),
    "unknown_key": ("*.EveryNumberIsFinite", "expected an observation of the spec, goal, image, position; found 'positions'"),
    "wrong_type": ("*.EveryNumberIsFinite", "observation 'goal': expected Buffer<T> of float32, as in the spec, found uint8"),
    "own_frame_size": ("*.LookingChangesNothing", "expected an image of 1 x 1 in 3 bytes, found 320 x 240"),
    # the expert
    "never_succeeds": ("*.SucceedsAtLeastOnce", "expected the expert to succeed in one of 5 episodes"),
    "expert_walks_away": ("*.SucceedsAtLeastOnce", "expected the expert to succeed in one of 5 episodes"),
    "expert_out_of_bounds": ("Expert*.ActionsAreFiniteAndWithinTheirBounds", "in dimension"),
    "expert_nan": ("Expert*.ActionsAreFiniteAndWithinTheirBounds", "'action': expected finite numbers, found nan in number 1 of 2"),
    "expert_writes_after": ("Expert*.ActionsAreFiniteAndWithinTheirBounds", "'action': expected 8 bytes, [2] float32, found a write after them"),
    "expert_moves": ("*.ActChangesNothingInTheEnv", "differs"),
    "expert_memory": ("Expert*.EqualSeedsGiveEqualEpisodes", "the expert's action 1 differs"),
    "expert_throws": ("Expert*.EqualSeedsGiveEqualEpisodes", "the plugin threw no inverse kinematics"),
}
DATASET = {
    "none": ("*", "PASSED"),
    "throw_in_create": (SPEC, "the plugin threw no such file"),
    "unsorted_keys": (SPEC, "expected keys in alphabetical order, each once, found 'position' before 'action'"),
    "duplicate_keys": (SPEC, "each once, found 'action' before 'action'"),
    "no_keys": (SPEC, "keys: expected at least one, found none"),
    "empty_shape": (SPEC, "'position': expected a shape with sizes of 1 or more, found []"),
    "no_fps": (SPEC, "fps: expected steps per second, or 0 if unknown, found -1"),
    "falling_ends": (SPEC, "found 16 after 24 at episode 2"),
    "empty_episode": (SPEC, "found 8 after 8 at episode 1"),
    "random_data": ("*.TwoInstancesHoldTheSameData", "FAILED"),
    "throw_in_read": ("*.NumbersAreFinite", "the plugin threw chunk 3 is missing"),
    "nan": ("*.NumbersAreFinite", "position within steps 0 to 24"),
    "wrong_order": ("*.RangesEqualStepsReadOneByOne", "action at step 1"),
    "cursor": ("*.ConcurrentReadsEqualSerialOnes", "result == wanted"),
    "unwritten_numbers": ("*.ReadFillsItsBufferAndNothingElse", "FAILED"),
    "writes_after_buffer": ("*.ReadFillsItsBufferAndNothingElse", "FAILED"),
}
PREDICT = "*.PredictsOneFiniteChunkPerRow"
LOSS = "*.EqualNoiseGivesEqualLoss"
POLICY = {
    "none": ("*", "PASSED"),
    "throw_in_create": (PREDICT, "the plugin threw no pretrained weights"),
    "nothing_registered": (PREDICT, "module(): expected at least one parameter to train, found none"),
    "other_spec": (PREDICT, "expected the shape_meta and horizons that the policy was created for"),
    "too_many_obs_steps": ("*.TrainsOnObservationsWithinTheHorizon", "expected n_obs_steps = 2 to horizon = 16, found 17"),
    "own_names": ("*.TakesTheNames*", "Does the policy expect other names than those of shape_meta?"),
    "whole_sequence": (PREDICT, "expected actions [B, Ta, Da] = [4, 8, 2] Float, found [4, 16, 2] Float. These are all T predicted"),
    "double_actions": (PREDICT, "expected actions [B, Ta, Da] = [4, 8, 2] Float, found [4, 8, 2] Double"),
    "flat_actions": (PREDICT, "found [4, 16] Float"),
    "one_row": (PREDICT, "found [1, 8, 2] Float"),
    "no_actions": (PREDICT, "found an undefined tensor"),
    "nan_actions": (PREDICT, "action.isfinite()"),
    "keeps_gradient": ("*.PredictionLeavesNoGradient", "action.requires_grad()"),
    "chunk_from_zero": ("*.TheChunkBeginsAtTheCurrentStep", "index 0 of the sequence than to those that begin at To - 1 = 1"),
    "chunk_a_step_late": ("*.TheChunkBeginsAtTheCurrentStep", "index 2 of the sequence than to those that begin at To - 1 = 1"),
    "normalized_actions": ("*.ActionsAreInTheUnitsOfTheData", 'Does PredictAction return normalizer.Unnormalize("action", ...)?'),
    "global_noise": ("*.EqualNoiseGivesEqualActions", "FAILED"),
    "mean_of_batch": ("*.ARowDependsNeitherOnItsCompanionsNorOnItsPlace", "FAILED"),
    "noise_by_place": ("*.ARowDependsNeitherOnItsCompanionsNorOnItsPlace", "FAILED"),
    "stale_cache": ("*.PredictionSeesWeightsThatTheOptimizerChanged", "FAILED"),
    "unused_parameter": ("*.EveryParameterGetsAFiniteGradient", "free.weight"),
    "learns_nothing": ("*.OverfitsOneBatch", "expected training on one batch to halve the mean loss"),
    "nan_loss": ("*.OverfitsOneBatch", "the loss of new weights is nan"),
    "throw_in_loss": (LOSS, "the plugin threw step 17"),
    "hang_in_loss": (LOSS, "this check: expected it to end within 8 s"),
    "wrong_product": (LOSS, "mat1 and mat2 shapes cannot be multiplied"),
    "wrong_noise_rows": (LOSS, "from a noise source of 4 rows"),
    "loss_of_global_noise": (LOSS, "FAILED"),
    "loss_per_row": (LOSS, "loss: expected a scalar, [] Float, found [4] Float. Take the mean"),
    "loss_without_gradient": (LOSS, "loss: expected a scalar with gradient, found one without"),
    "no_loss": (LOSS, "loss: expected a scalar, [] Float, found an undefined tensor"),
    "part_per_row": (LOSS, "part 'rows' of the loss: expected a scalar, found [4] Float"),
    "undefined_part": (LOSS, "part 'rows' of the loss: expected a scalar, found an undefined tensor"),
    "changed_in_place": ("*.EveryParameterGetsAFiniteGradient", "modified by an inplace operation"),
    "unchecked_normalizer": ("*.RefusesWrongInputsWithoutACrash", "WrongCalls.WithoutANormalizerItRefuses"),
    "unchecked_statistics": ("*.RefusesWrongInputsWithoutACrash", "no error for a missing statistic"),
    "unchecked_shapes": ("*.RefusesWrongInputsWithoutACrash", "WrongCalls.AMissingKeyIsNamed"),
}
TABLES = {"env": ENV, "dataset": DATASET, "policy": POLICY}

NEVER = ["a bug in dp_bench", "frame #", "terminate called", "Assertion"]


def problem_of(programs, plugins, kind, mistake):
    """What is wrong with the suite's answer; empty if nothing is."""
    checks, wanted, *options = TABLES[kind][mistake]
    limits = {"call_timeout": 1, "test_timeout": 8 if mistake.startswith("hang") else 100}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as params:
        json.dump({"mistake": mistake, "conformance": limits}, params)
        params.flush()
        run = subprocess.run(
            [programs / f"{kind}_conformance", f"--plugin={plugins}/libdpb_{kind}_mistaken.so", f"--params={params.name}",
             f"--gtest_filter={checks}", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=250)
    faults = [text for text in NEVER if text in run.stdout]
    if wanted not in run.stdout:
        faults.append(f"it did not say: {wanted}")
    if run.returncode != (0 if mistake == "none" else 1):
        faults.append(f"it ended with {run.returncode}")
    return f"{kind}, {mistake}: {'; '.join(faults)}\n{run.stdout}" if faults else ""


def main():
    programs, plugins = map(pathlib.Path, sys.argv[1:3])
    rows = [(kind, mistake) for kind in sys.argv[3:] for mistake in TABLES[kind]]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        problems = list(filter(None, pool.map(lambda row: problem_of(programs, plugins, *row), rows)))
    print("\n".join(problems))
    print(f"{len(rows) - len(problems)} of {len(rows)} as they should be")
    sys.exit(1 if problems else 0)


main()
