#include "view/demonstration_recorder.h"

#include "core/json.h"

namespace dp_bench::view {
namespace {

using nlohmann::json;

std::vector<std::uint64_t> SeedsIn(const json& attributes, const std::filesystem::path& folder) {
  const std::string what = (folder / ".zattrs").string();
  return core::JsonView(attributes, what).At("episodes").Get<std::vector<std::uint64_t>>("seed");
}

}  // namespace

json DemonstrationOrigin(const std::string& env_section, const std::string& env_version) {
  return {{"env", json::parse(env_section)}, {"env_version", env_version}, {"by", "human"}};
}

DemonstrationRecorder::DemonstrationRecorder(Env& env, const std::filesystem::path& folder,
                                             const json& origin)
    : env_(env),
      keys_(data::RecordedKeys(env.spec())),
      writer_(folder, keys_, origin),
      episode_(keys_),
      obs_(env.spec()) {
  if (writer_.n_episodes() > 0) seeds_ = SeedsIn(writer_.attributes(), folder);
  seeds_.resize(static_cast<std::size_t>(writer_.n_episodes()));  // a kill may have left more
}

void DemonstrationRecorder::Begin(std::uint64_t seed) {
  seed_ = seed;
  episode_ = data::ReplayEpisode(keys_);
}

void DemonstrationRecorder::Add(std::span<const float> action) {
  obs_.Observe(env_);
  std::vector<std::span<const std::byte>> values = obs_.values();
  values.push_back(std::as_bytes(action));
  episode_.Append(values);
}

std::int64_t DemonstrationRecorder::Keep() {
  writer_.Append(episode_);
  seeds_.push_back(seed_);
  const json episodes = {{"seed", seeds_}, {"success", std::vector<bool>(seeds_.size(), true)}};
  writer_.Commit(data::RolloutAttributes(env_.spec().control_hz, writer_.n_steps(), episodes,
                                         /*failures=*/{}),
                 /*is_complete=*/true);
  return writer_.n_episodes();
}

}  // namespace dp_bench::view
