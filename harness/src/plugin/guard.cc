#include "plugin/guard.h"

#include <fmt/format.h>

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
  void Read(int key, std::int64_t begin, std::int64_t end,
            std::span<std::byte> out) const override {
    GuardCall(place_, "Read", [&] { dataset_->Read(key, begin, end, out); });
  }

 private:
  PluginPlace place_;
  std::unique_ptr<Dataset> dataset_;
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
  }
  return fmt::format("unknown ({})", static_cast<std::uint32_t>(kind));
}

std::string PluginPlace::Name() const {
  return fmt::format("{} plugin '{}'", KindName(kind), name);
}

std::string PluginPlace::Context(const char* during) const {
  return fmt::format("in {} ({}), during {}", Name(), file.filename().string(), during);
}

Error ForeignExceptionError(const PluginPlace& place, const char* during, const std::string& what) {
  Error error(ErrorCode::kPlugin,
              fmt::format("the plugin threw {}; expected no exception other than dp_bench::Error. "
                          "Look for it in this call of the plugin.",
                          what));
  error.AddContext(place.Context(during));
  return error;
}

std::unique_ptr<Dataset> GuardPlugin(std::unique_ptr<Dataset> dataset, PluginPlace place) {
  GuardCall(place, "spec", [&] { RequireSound(dataset->spec(), dataset->episode_ends()); });
  return std::make_unique<GuardedDataset>(std::move(dataset), std::move(place));
}

}  // namespace dp_bench::plugin
