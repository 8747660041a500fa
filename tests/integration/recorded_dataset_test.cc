// eval --record-dataset with a shipped policy on PushT: the dataset has what the env showed, and
// its actions lead to the scores of the evaluation.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "evaluate/checkpoint_evaluation.h"
#include "plugin/catalogue.h"
#include "plugin/obs_memory.h"
#include "run/run_folder.h"
#include "support/folder_content.h"
#include "support/read_all.h"
#include "support/scratch_folder.h"
#include "task/dataset_reading.h"

namespace dp_bench::evaluate {
namespace {

namespace fs = std::filesystem;

class RecordedDataset : public testing::Test {
 protected:
  // Of seeds 100000 to 100002; returns the run folder.
  fs::path Evaluate(const std::string& name, RecordingOptions recording,
                    const std::string& n_envs = "16") {
    CheckpointEvaluationOptions options;
    options.checkpoint = fs::path(DPB_SOURCE_DIR) / "models/pusht_transformer";
    options.output = scratch_.path() / name;
    options.recording = std::move(recording);
    options.experiment.plugin_dirs = {DPB_PLUGIN_DIR};
    options.experiment.overrides = {"env_runner.n_train=1",     "env_runner.n_test=3",
                                    "env_runner.n_videos=0",    "env_runner.micro_batch=2",
                                    "env_runner.max_steps=100", "env_runner.n_envs=" + n_envs};
    core::SingleProcess alone;
    EXPECT_EQ(CheckpointEvaluation(options, alone).RunToItsEnd(), 0);
    return options.output;
  }

  std::unique_ptr<Dataset> Open(const fs::path& path) {
    return task::OpenDataset(path, {}, catalogue_);
  }

  // Executes the dataset's actions in the env of its origin: the observations are those of the
  // dataset, the scores those of its attributes.
  void Replay(const Dataset& dataset, const nlohmann::json& attributes) {
    const nlohmann::json env_section = attributes.at("origin").at("env");
    const std::unique_ptr<Env> env =
        catalogue_.Create<Env>(env_section.at("plugin").get<std::string>(),
                               Config::FromJson(env_section.at("params").dump(), "origin"));
    plugin::ObsMemory obs(env->spec());
    std::int64_t begin = 0;
    for (std::size_t episode = 0; episode < dataset.episode_ends().size(); ++episode) {
      env->Reset(attributes.at("episodes").at("seed").at(episode).get<std::uint64_t>());
      double score = 0.0;
      const std::int64_t end = dataset.episode_ends()[episode];
      for (; begin < end; ++begin) {
        obs.Observe(*env);
        for (const KeySpec& key : dataset.spec().keys) {
          if (key.name == "action") continue;
          const auto place =
              std::ranges::find(obs.keys(), key.name, &KeySpec::name) - obs.keys().begin();
          EXPECT_TRUE(std::ranges::equal(obs[static_cast<std::size_t>(place)],
                                         ReadSteps(dataset, key.name, begin, begin + 1)))
              << key.name << " at " << begin;
        }
        const auto action = ReadSteps<float>(dataset, "action", begin, begin + 1);
        score = std::max(score, env->Step(action).reward);
      }
      EXPECT_EQ(score, attributes.at("episodes").at("score").at(episode).get<double>());
    }
  }

  const ScratchFolder scratch_;
  plugin::PluginCatalogue catalogue_{{DPB_PLUGIN_DIR}};
};

nlohmann::json ReadJson(const fs::path& file) {
  return nlohmann::json::parse(core::ReadTextFile(file, std::size_t{1} << 20));
}

TEST_F(RecordedDataset, ItsActionsLeadToTheScoresOfTheEvaluation) {
  const fs::path plain = Evaluate("plain", {});
  const fs::path folder = Evaluate("recorded", {.output = scratch_.path() / "a.zarr"});
  const run::RunFolder run = run::ReadRunFolder(folder);
  EXPECT_EQ(FilesBelow(plain).at("episodes.jsonl"), FilesBelow(folder).at("episodes.jsonl"));
  EXPECT_EQ(NamesIn(plain), NamesIn(folder)) << "nothing is left of the recording";

  const nlohmann::json attributes = ReadJson(scratch_.path() / "a.zarr/.zattrs");
  EXPECT_EQ(attributes.at("/episodes/seed"_json_pointer), nlohmann::json({100000, 100001, 100002}));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(attributes.at("episodes").at("score").at(i), run.episodes[i + 1].score);
    EXPECT_EQ(attributes.at("episodes").at("success").at(i), run.episodes[i + 1].success);
  }
  EXPECT_EQ(attributes.at("origin").at("run_id"), run::RunIdOf(run.manifest));
  EXPECT_EQ(attributes.at("origin").at("checkpoint"),
            nlohmann::json::parse(run.manifest).at("checkpoint"));
  Replay(*Open(scratch_.path() / "a.zarr"), attributes);

  // one env at a time: the same data
  Evaluate("in_turn", {.output = scratch_.path() / "b.zarr"}, /*n_envs=*/"1");
  for (const char* part : {"data", "meta"}) {
    EXPECT_EQ(DifferingFiles(FilesBelow(scratch_.path() / "a.zarr" / part),
                             FilesBelow(scratch_.path() / "b.zarr" / part)),
              "");
  }
}

TEST_F(RecordedDataset, OtherFormatsReadTheSame) {
  Evaluate("zarr", {.output = scratch_.path() / "a.zarr"});
  const std::unique_ptr<Dataset> wanted = Open(scratch_.path() / "a.zarr");
  for (const std::string format : {"lerobot", "hdf5"}) {
    try {
      catalogue_.Find(PluginKind::kDatasetWriter, format);
    } catch (const Error&) {
      continue;  // was not built
    }
    const fs::path output = scratch_.path() / ("a_" + format);
    Evaluate(format, {.output = output, .format = format});
    const std::unique_ptr<Dataset> found = Open(output);
    ASSERT_TRUE(std::ranges::equal(found->episode_ends(), wanted->episode_ends())) << format;
    for (const KeySpec& key : wanted->spec().keys) {
      EXPECT_EQ(ReadAll(*found, key.name), ReadAll(*wanted, key.name)) << format << " " << key.name;
    }
    EXPECT_EQ(ReadJson(output.string() + ".recording.json").at("episodes"),
              ReadJson(scratch_.path() / "a.zarr/.zattrs").at("episodes"));
    EXPECT_FALSE(fs::exists(output.string() + ".recording.zarr"));
  }
}

}  // namespace
}  // namespace dp_bench::evaluate
