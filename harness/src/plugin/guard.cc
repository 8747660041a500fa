#include "plugin/guard.h"

#include <fmt/format.h>

#include "core/machine.h"
#include "plugin/env_guard.h"
#include "plugin/spec_check.h"

namespace dp_bench::plugin {
namespace {

class GuardedDataset final : public Dataset {
 public:
  GuardedDataset(std::unique_ptr<Dataset> dataset, PluginPlace place)
      : place_(std::move(place)), dataset_(std::move(dataset)) {}

  const DatasetSpec& spec() const override {
    return GuardCall(place_, "spec", [&]() -> const DatasetSpec& { return dataset_->spec(); });
  }
  std::span<const std::int64_t> episode_ends() const override {
    return GuardCall(place_, "episode_ends", [&] { return dataset_->episode_ends(); });
  }
  void DoRead(int key, std::int64_t begin, std::int64_t end,
              std::span<std::byte> out) const override {
    GuardCall(place_, "Read", [&] { dataset_->Read(key, begin, end, out); });
  }

  std::string Task(std::int64_t episode) const override {
    return GuardCall(place_, "Task", [&] { return dataset_->Task(episode); });
  }
  std::string FeatureName(int key) const override {
    return GuardCall(place_, "FeatureName", [&] { return dataset_->FeatureName(key); });
  }
  std::vector<std::string> ChannelNames(int key) const override {
    return GuardCall(place_, "ChannelNames", [&] { return dataset_->ChannelNames(key); });
  }
  std::optional<StatedRange> RecordedRange(int key) const override {
    return GuardCall(place_, "RecordedRange", [&] { return dataset_->RecordedRange(key); });
  }

 private:
  PluginPlace place_;
  std::unique_ptr<Dataset> dataset_;
};

class GuardedDatasetWriter final : public DatasetWriter {
 public:
  GuardedDatasetWriter(std::unique_ptr<DatasetWriter> writer, PluginPlace place, DatasetSpec spec)
      : place_(std::move(place)), writer_(std::move(writer)), spec_(std::move(spec)) {}

  std::int64_t n_episodes() const override {
    return GuardCall(place_, "n_episodes", [&] { return writer_->n_episodes(); });
  }

  void BeginEpisode(const EpisodeHead& head) override {
    DPB_ASSERT(n_missing_steps_ == 0 && head.n_steps > 0);
    n_missing_steps_ = head.n_steps;
    GuardCall(place_, "BeginEpisode", [&] { writer_->BeginEpisode(head); });
  }

  void Append(std::span<const std::span<const std::byte>> values) override {
    DPB_ASSERT(n_missing_steps_ > 0 && values.size() == spec_.keys.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      DPB_ASSERT(values[i].size() == spec_.keys[i].ByteSize());
    }
    GuardCall(place_, "Append", [&] { writer_->Append(values); });
    --n_missing_steps_;
  }

  void Finish() override {
    DPB_ASSERT(n_missing_steps_ == 0);
    GuardCall(place_, "Finish", [&] { writer_->Finish(); });
  }

  std::vector<std::string> Notes() const override {
    return GuardCall(place_, "Notes", [&] { return writer_->Notes(); });
  }

 private:
  PluginPlace place_;
  std::unique_ptr<DatasetWriter> writer_;
  DatasetSpec spec_;
  std::int64_t n_missing_steps_ = 0;  // of the current episode
};

}  // namespace

std::string KindName(PluginKind kind) {
  switch (kind) {
    case PluginKind::kEnv:
      return "env";
    case PluginKind::kDataset:
      return "dataset";
    case PluginKind::kPolicy:
      return "policy";
    case PluginKind::kDatasetWriter:
      return "writer";
  }
  return fmt::format("unknown ({})", static_cast<std::uint32_t>(kind));
}

std::string PluginPlace::Name() const {
  return fmt::format("{} plugin '{}'", KindName(kind), name);
}

std::string PluginPlace::Context(const char* during) const {
  return fmt::format("in {} ({}), during {}", Name(), file.filename().string(), during);
}

void PluginPlace::AddContext(const char* during, Error* error) const {
  if (!name.empty()) error->AddContext(Context(during));
}

Error ForeignExceptionError(const PluginPlace& place, const char* during, const std::string& what) {
  // LibTorch, which this library does not know, says so with an exception type of its own
  if (what.find("can't allocate memory") != std::string::npos ||
      what.find("out of memory") != std::string::npos) {
    throw core::OutOfMemory(
        fmt::format("{} needs more than there is, during {}: {}\n  If the network alone is too "
                    "large, make it smaller (policy.params).",
                    place.Name(), during, what.substr(0, what.find("\nframe #"))));
  }
  Error error(ErrorCode::kPlugin,
              fmt::format("the plugin threw {}; expected no exception other than dp_bench::Error. "
                          "Look for it in this call of the plugin.",
                          what));
  place.AddContext(during, &error);
  return error;
}

std::unique_ptr<Env> GuardPlugin(std::unique_ptr<Env> env, PluginPlace place) {
  GuardCall(place, "spec", [&] { RequireSound(env->spec()); });
  EnvGuard::Of(*env).SetPlace(std::move(place));
  return env;
}

std::unique_ptr<Dataset> GuardPlugin(std::unique_ptr<Dataset> dataset, PluginPlace place) {
  GuardCall(place, "spec", [&] { RequireSound(dataset->spec(), dataset->episode_ends()); });
  return std::make_unique<GuardedDataset>(std::move(dataset), std::move(place));
}

std::unique_ptr<DatasetWriter> GuardPlugin(std::unique_ptr<DatasetWriter> writer, PluginPlace place,
                                           const DatasetSpec& spec) {
  return std::make_unique<GuardedDatasetWriter>(std::move(writer), std::move(place), spec);
}

}  // namespace dp_bench::plugin
