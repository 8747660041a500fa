// What the tests share that import a policy of LeRobot and export it again.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "interop/lerobot_export.h"
#include "interop/policy_folder.h"
#include "support/scratch_folder.h"
#include "task/lerobot_import.h"

namespace dp_bench::interop {

class ImportedPolicy : public testing::Test {
 protected:
  /// `name`: the folder in tests/data/lerobot. `task`: a config with its env and keys.
  task::LerobotImport RequestFor(const std::string& name, const char* task) {
    const std::filesystem::path config = scratch_.path() / "task.json";
    core::WriteFileAtomically(config, task);
    return {.folder = std::filesystem::path(DPB_SOURCE_DIR "/tests/data/lerobot") / name,
            .output = scratch_.path() / "imported",
            .experiment = {{.config = config}, "", {}, {DPB_PLUGIN_DIR}}};
  }

  static run::Checkpoint Imported(const task::LerobotImport& request) {
    task::ImportLerobotPolicy(request);
    return run::Checkpoint::Open(request.output);
  }

  /// The same with one setting changed. `place` is a JSON pointer.
  run::Checkpoint Changed(const run::Checkpoint& original, const char* place,
                          const nlohmann::json& value) {
    nlohmann::json config = nlohmann::json::parse(original.config());
    config[nlohmann::json::json_pointer(place)] = value;
    run::CheckpointContents contents = {.config = config.dump(), .state = original.state()};
    for (const char* file : {"ema.safetensors", "normalizer.safetensors"}) {
      contents.tensors[file] = original.ReadTensors(file);
    }
    const std::filesystem::path changed = scratch_.path() / "changed";
    std::filesystem::remove_all(changed);
    std::filesystem::create_directories(changed);
    run::WriteCheckpointFiles(changed, contents);
    return run::Checkpoint::Open(changed);
  }

  void Export(const run::Checkpoint& checkpoint, std::vector<std::string> map = {}) {
    ExportLerobotPolicy(checkpoint, catalogue_, {.output = exported_, .map = std::move(map)});
  }

  ScratchFolder scratch_;
  std::filesystem::path exported_ = scratch_.path() / "exported";
  plugin::PluginCatalogue catalogue_{{DPB_PLUGIN_DIR}};
};

/// Bit for bit.
inline void ExpectEqualWeights(const LerobotPolicy& found, const LerobotPolicy& expected) {
  ASSERT_EQ(found.weights.size(), expected.weights.size());
  for (const auto& [name, array] : expected.weights) {
    EXPECT_TRUE(std::ranges::equal(found.weights.at(name).bytes(), array.bytes())) << name;
  }
}

}  // namespace dp_bench::interop
