#include "plugin/guard.h"

#include <fmt/format.h>

#include "plugin/forwarding_env.h"

namespace dp_bench::plugin {
namespace {

void RequireAbility(const char* name, bool is_declared, bool is_offered) {
  if (is_declared == is_offered) return;
  throw Error(ErrorCode::kPlugin,
              fmt::format("the env's spec {} and {}() is {}null",
                          is_declared ? "declares an ability" : "does not declare an ability", name,
                          is_offered ? "not " : ""));
}

// A plugin's spec and its ability pointers must agree: the host relies on the spec alone.
EnvSpec CheckedSpec(Env& env) {
  const EnvSpec& spec = env.spec();
  const EnvAbilities& abilities = spec.abilities;
  RequireAbility("state_access", abilities.state_size > 0, env.state_access() != nullptr);
  RequireAbility("expert", abilities.has_expert, env.expert() != nullptr);
  RequireAbility("pointer_control", abilities.has_pointer_control,
                 env.pointer_control() != nullptr);
  RequireAbility("camera_access", !abilities.cameras.empty(), env.camera_access() != nullptr);
  RequireAbility("picture_marks", abilities.n_marks > 0, env.picture_marks() != nullptr);
  return spec;
}

class GuardedEnv final : public ForwardingEnv {
 public:
  GuardedEnv(std::unique_ptr<Env> env, EnvSpec spec, PluginPlace place)
      : ForwardingEnv(std::move(env), std::move(spec)), place_(std::move(place)) {}

 private:
  void Around(const char* name, CallRef call) const override { GuardCall(place_, name, call); }

  PluginPlace place_;
};

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

std::string PluginPlace::Context(const char* during) const {
  return fmt::format("in {} plugin '{}' ({}), during {}", KindName(kind), name,
                     file.filename().string(), during);
}

Error ForeignExceptionError(const PluginPlace& place, const char* during, const std::string& what) {
  Error error(ErrorCode::kPlugin, fmt::format("the plugin threw {}", what));
  error.AddContext(place.Context(during));
  return error;
}

std::unique_ptr<Env> GuardPlugin(std::unique_ptr<Env> env, PluginPlace place) {
  EnvSpec spec = GuardCall(place, "spec", [&] { return CheckedSpec(*env); });
  return std::make_unique<GuardedEnv>(std::move(env), std::move(spec), std::move(place));
}

std::unique_ptr<Dataset> GuardPlugin(std::unique_ptr<Dataset> dataset, PluginPlace place) {
  return std::make_unique<GuardedDataset>(std::move(dataset), std::move(place));
}

}  // namespace dp_bench::plugin
