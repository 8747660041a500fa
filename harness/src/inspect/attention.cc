// The plan has one row, so the first dimension of a map of cameras is the
// observation step, and that of a map of tokens is 1 or the denoising steps.
#include "inspect/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/errors.h"
#include "core/output_file.h"
#include "data/loader.h"
#include "planner/policy_planner.h"
#include "policy/stage_recorder.h"
#include "report/render.h"

namespace dp_bench::inspect {
namespace {

using Json = nlohmann::json;
using torch::Tensor;

constexpr std::string_view kMapPrefix = "attention: ";
constexpr std::string_view kPartPrefix = "condition part: ";
constexpr std::string_view kTimestep = "timestep";
constexpr std::string_view kObservation = "observation ";  // a condition token, not yet divided

// "t-1", "t", "t+3"
std::string StepName(std::int64_t offset) {
  return offset == 0 ? "t" : fmt::format("t{:+d}", offset);
}

struct Part {
  std::string name;
  Tensor features;  // [To, D]
};

// A sum of maps [n, n_head, rows, columns] of the same name.
struct MapSum {
  std::string name;
  Tensor sum;
  int n = 0;
};

// Collects what the policy traces.
class Collector {
 public:
  void operator()(std::string_view name, const Tensor& tensor) {
    const torch::NoGradGuard no_grad;
    if (name == kTimestep) timesteps_.push_back(tensor.item<double>());
    if (name == "transformer: observation embedding") embedding = tensor.cpu().to(torch::kFloat64);
    if (name.starts_with(kPartPrefix)) {
      parts.push_back({.name = std::string(name.substr(kPartPrefix.size())),
                       .features = tensor[0].cpu().to(torch::kFloat64)});
    }
    if (name.starts_with(kMapPrefix)) Add(std::string(name.substr(kMapPrefix.size())), tensor);
  }

  std::vector<MapSum> maps;
  std::vector<Part> parts;
  Tensor embedding;  // [d, Do]; undefined without condition tokens
  std::vector<std::pair<double, Tensor>> by_timestep;  // [rows, columns] of each layer
  std::size_t n_steps() const { return std::max<std::size_t>(1, timesteps_.size()); }

 private:
  void Add(const std::string& name, const Tensor& weights) {
    const Tensor map = weights.cpu().to(torch::kFloat64).clone();
    const auto found = std::ranges::find(maps, name, &MapSum::name);
    if (found == maps.end()) {
      maps.push_back({.name = name, .sum = map, .n = 1});
    } else {
      found->sum = found->sum + map;
      ++found->n;
    }
    if (name.ends_with("actions to condition") && !timesteps_.empty()) {
      by_timestep.emplace_back(timesteps_.back(), map.mean(c10::IntArrayRef{0, 1}));
    }
  }

  std::vector<double> timesteps_;
};

// Names the tokens, and divides condition tokens among their observations.
class Tokens {
 public:
  Tokens(const Collector& collected, std::int64_t n_obs_steps)
      : parts_(collected.parts), n_obs_steps_(n_obs_steps), shares_(PartShares(collected)) {}

  std::vector<std::string> Names(const std::string& group, std::int64_t n) const {
    std::vector<std::string> names;
    if (group == "actions" || group == "condition") {
      const bool is_action = group == "actions";
      const std::int64_t n_steps = is_action ? n : n_obs_steps_ + 1;
      // without memory, the first of T + 1 tokens is the timestep
      const bool has_timestep = !is_action || has_timestep_token_;
      if (has_timestep) names.emplace_back(kTimestep);
      for (std::int64_t i = 0; std::ssize(names) < std::min(n, n_steps); ++i) {
        names.push_back((is_action ? "action " : std::string(kObservation)) +
                        StepName(i - n_obs_steps_ + 1));
      }
      return names;
    }
    for (const Part& part : parts_) {
      if (part.name.starts_with(group + " of ")) names.push_back(part.name);
    }
    if (std::ssize(names) == n) return names;
    names.clear();
    for (std::int64_t i = 1; i <= n; ++i) names.push_back(fmt::format("{} {}", group, i));
    return names;
  }

  void set_has_timestep_token(bool has) { has_timestep_token_ = has; }

  // weights [..., columns] -> [..., more columns]; replaces the names likewise.
  Tensor Divide(const Tensor& weights, std::vector<std::string>* columns) const {
    if (!shares_.defined()) return weights;
    std::vector<Tensor> divided;
    std::vector<std::string> names;
    std::int64_t step = 0;
    for (std::int64_t i = 0; i < std::ssize(*columns); ++i) {
      const std::string& name = (*columns)[static_cast<std::size_t>(i)];
      const Tensor column = weights.narrow(-1, i, 1);
      if (!name.starts_with(kObservation)) {
        divided.push_back(column);
        names.push_back(name);
        continue;
      }
      divided.push_back(column * shares_[step++]);
      for (const Part& part : parts_) {
        names.push_back(part.name + " " + name.substr(kObservation.size()));
      }
    }
    *columns = std::move(names);
    return torch::cat(divided, /*dim=*/-1);
  }

 private:
  // [To, n_parts]: the length of what each part adds to the token of its step, as a share.
  static Tensor PartShares(const Collector& collected) {
    if (!collected.embedding.defined() || collected.parts.empty()) return {};
    std::vector<Tensor> lengths;
    std::int64_t first = 0;
    for (const Part& part : collected.parts) {
      const std::int64_t width = part.features.size(1);
      if (first + width > collected.embedding.size(1)) return {};
      const Tensor weight = collected.embedding.narrow(1, first, width);
      lengths.push_back(torch::matmul(part.features, weight.t()).norm(2, /*dim=*/1));
      first += width;
    }
    if (first != collected.embedding.size(1)) return {};
    const Tensor all = torch::stack(lengths, /*dim=*/1);
    const Tensor sum = all.sum(1, /*keepdim=*/true);
    const Tensor equal = torch::full_like(all, 1.0 / static_cast<double>(all.size(1)));
    return torch::where(sum > 0.0, all / sum.clamp_min(1e-300), equal);
  }

  const std::vector<Part>& parts_;
  std::int64_t n_obs_steps_;
  Tensor shares_;
  bool has_timestep_token_ = false;
};

// Element by element.
AttentionShares Averaged(const std::vector<AttentionShares>& all) {
  AttentionShares mean = all.front();
  for (std::size_t row = 0; row < mean.size(); ++row) {
    for (std::size_t column = 0; column < mean[row].size(); ++column) {
      double sum = 0.0;
      for (const AttentionShares& each : all) sum += each[row][column];
      mean[row][column] = sum / static_cast<double>(all.size());
    }
  }
  return mean;
}

AttentionShares ToShares(const Tensor& weights) {
  const Tensor values = weights.to(torch::kFloat64).contiguous();
  const double* next = values.const_data_ptr<double>();
  AttentionShares shares;
  for (std::int64_t row = 0; row < values.size(0); ++row, next += values.size(1)) {
    shares.emplace_back(next, next + values.size(1));
  }
  return shares;
}

// weights: [n_head, rows, columns].
AttentionMap MakeMap(const std::string& name, const Tensor& weights, const Tokens& tokens,
                     const std::string& step) {
  const std::size_t comma = name.rfind(", ");
  const std::string groups = name.substr(comma == std::string::npos ? 0 : comma + 2);
  const std::size_t to = groups.find(" to ");
  if (to == std::string::npos) {
    throw PluginError(
        "the policy traces 'attention: {}'; expected a name that ends with '<rows> to <columns>'",
        name);
  }
  AttentionMap map = {.name = step.empty() ? name : fmt::format("{}, {}", name, step),
                      .rows = tokens.Names(groups.substr(0, to), weights.size(1)),
                      .columns = tokens.Names(groups.substr(to + 4), weights.size(2))};
  const Tensor divided = tokens.Divide(weights, &map.columns);
  for (std::int64_t head = 0; head < divided.size(0); ++head) {
    map.heads.push_back(ToShares(divided[head]));
  }
  return map;
}

std::vector<AttentionMap> MakeMaps(const Collector& collected, const Tokens& tokens,
                                   std::int64_t n_obs_steps) {
  std::vector<AttentionMap> maps;
  for (const MapSum& each : collected.maps) {
    const Tensor mean = each.sum / each.n;
    const bool is_of_tokens = each.name.find("actions") != std::string::npos ||
                              each.name.find("condition") != std::string::npos;
    if (is_of_tokens || mean.size(0) != n_obs_steps) {
      maps.push_back(MakeMap(each.name, mean.mean(0), tokens, ""));
      continue;
    }
    for (std::int64_t s = 0; s < n_obs_steps; ++s) {
      maps.push_back(MakeMap(each.name, mean[s], tokens, StepName(s - n_obs_steps + 1)));
    }
  }
  return maps;
}

std::vector<AttentionMap> MakeMeans(const std::vector<AttentionMap>& maps,
                                    const Collector& collected, const Tokens& tokens) {
  AttentionMap all = {.name = "All layers and heads: where each action looks"};
  std::vector<AttentionShares> layers;
  for (const AttentionMap& map : maps) {
    if (!map.is_to_condition()) continue;
    layers.push_back(map.Mean());
    all.rows = map.rows;
    all.columns = map.columns;
  }
  if (layers.empty()) return {};
  all.heads = {Averaged(layers)};

  AttentionMap by_step = {.name = "All actions, layers and heads, by denoising step"};
  std::map<double, std::vector<Tensor>, std::greater<>> of_timestep;
  for (const auto& [timestep, map] : collected.by_timestep) of_timestep[timestep].push_back(map);
  std::vector<Tensor> rows;
  for (const auto& [timestep, found] : of_timestep) {
    by_step.rows.push_back(fmt::format("timestep {:.6g}", timestep));
    rows.push_back(torch::stack(found).mean(c10::IntArrayRef{0, 1}));
  }
  if (rows.empty()) return {all};
  by_step.columns = tokens.Names("condition", rows.front().size(0));
  by_step.heads = {ToShares(tokens.Divide(torch::stack(rows), &by_step.columns))};
  return {all, by_step};
}

// The output forms.

constexpr std::size_t kNamedColumns = 3;

// "agent_pos t 0.61, timestep 0.22, action t+1 0.05": the mean over rows.
std::string TopColumns(const AttentionShares& shares, const std::vector<std::string>& columns) {
  std::vector<double> mean(columns.size(), 0.0);
  for (const std::vector<double>& row : shares) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      mean[i] += row[i] / static_cast<double>(shares.size());
    }
  }
  std::vector<std::size_t> order(columns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return mean[a] > mean[b]; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamedColumns, order.size()); ++i) {
    text += fmt::format("{}{} {:.2f}", i == 0 ? "" : ", ", columns[order[i]], mean[order[i]]);
  }
  return text;
}

Json MapJson(const AttentionMap& map) {
  return {{"name", map.name},
          {"rows", map.rows},
          {"columns", map.columns},
          {"mean", map.Mean()},
          {"heads", map.heads}};
}

// A heat map, whose cells tell row, column and share when the pointer rests on them.
Json HeatRows(const AttentionMap& map, const AttentionShares& shares) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < shares.size(); ++row) {
    Json cells = Json::array();
    for (std::size_t column = 0; column < shares[row].size(); ++column) {
      const double share = shares[row][column];
      cells.push_back(
          {{"share", share},
           {"title", fmt::format("{} → {}: {:.3f}", map.rows[row], map.columns[column], share)}});
    }
    rows.push_back({{"name", map.rows[row]}, {"cells", std::move(cells)}});
  }
  return rows;
}

// The mean and each head of a map. In the text its columns have numbers, because their names are
// long.
Json ShownMap(const AttentionMap& map) {
  Json columns = Json::array();
  for (const std::string& column : map.columns) {
    columns.push_back({{"number", columns.size() + 1}, {"name", column}});
  }
  Json heads = Json::array();
  for (const AttentionShares& head : map.heads) {
    heads.push_back({{"number", heads.size() + 1},
                     {"top", TopColumns(head, map.columns)},
                     {"rows", HeatRows(map, head)}});
  }
  return {{"name", map.name},
          {"columns", columns},
          {"rows", HeatRows(map, map.Mean())},
          {"heads", heads}};
}

template <class Form>
Json ListOf(const std::vector<AttentionMap>& maps, const Form& form) {
  Json list = Json::array();
  for (const AttentionMap& map : maps) list.push_back(form(map));
  return list;
}

// What text and page show.
Json ViewOf(const AttentionInspection& inspection) {
  return {{"title", fmt::format("Attention of {} on {}", inspection.policy, inspection.task)},
          {"observation", inspection.observation},
          {"n_steps", inspection.n_steps},
          {"means", ListOf(inspection.means, ShownMap)},
          {"maps", ListOf(inspection.maps, ShownMap)}};
}

}  // namespace

AttentionShares AttentionMap::Mean() const { return Averaged(heads); }

std::string ToText(const AttentionInspection& inspection) {
  return report::Render("attention.txt", ViewOf(inspection));
}

nlohmann::json ToJson(const AttentionInspection& inspection) {
  Json means = ListOf(inspection.means, MapJson);
  for (Json& mean : means) mean.erase("heads");
  return {{"policy", inspection.policy},
          {"task", inspection.task},
          {"observation", inspection.observation},
          {"denoising_steps", inspection.n_steps},
          {"means", means},
          {"maps", ListOf(inspection.maps, MapJson)}};
}

void WriteAttentionPage(const AttentionInspection& inspection, const std::filesystem::path& file) {
  core::WriteOutput(file, report::Render("attention.html", ViewOf(inspection)));
}

AttentionInspection InspectAttention(Policy& policy, torch::Device device,
                                     const control::RecordedObs& recorded) {
  const Horizons& horizons = policy.spec().horizons;
  std::vector<float> actions(
      static_cast<std::size_t>(horizons.n_action_steps * policy.spec().shape_meta.action_dim()));
  Collector collected;
  {
    const policy::StageRecorder recorder(std::ref(collected));
    planner::PolicyPlanner(policy, device, /*micro_batch=*/1)
        .Plan(recorded.obs, {&recorded.row, 1}, actions);
  }
  if (collected.maps.empty()) {
    throw UsageError(
        "this policy has no attention: expected transformer, rgbd_fusion, or a policy that traces "
        "stages 'attention: …' while it samples");
  }
  Tokens tokens(collected, horizons.n_obs_steps);
  for (const MapSum& map : collected.maps) {
    if (map.name.ends_with("actions to actions") && map.sum.size(3) > horizons.horizon) {
      tokens.set_has_timestep_token(true);
    }
  }
  AttentionInspection inspection = {.n_steps = collected.n_steps(),
                                    .maps = MakeMaps(collected, tokens, horizons.n_obs_steps)};
  inspection.means = MakeMeans(inspection.maps, collected, tokens);
  return inspection;
}

control::RecordedObs ObsOfDemonstration(const Dataset& dataset, const PolicySpec& spec,
                                        std::int64_t episode, std::int64_t step) {
  const auto ends = dataset.episode_ends();
  if (episode < 0 || episode >= std::ssize(ends)) {
    throw UsageError("--episode: expected 0 to {}, found {}", std::ssize(ends) - 1, episode);
  }
  const auto at = static_cast<std::size_t>(episode);
  const std::int64_t begin = episode == 0 ? 0 : ends[at - 1];
  const std::int64_t length = ends[at] - begin;
  if (step < 0 || step >= length) {
    throw UsageError("--step: episode {} has the steps 0 to {}, found {}", episode, length - 1,
                     step);
  }
  control::RecordedObs recorded = {.row = {.env_step = static_cast<std::uint64_t>(step)}};
  const std::int64_t n_obs_steps = spec.horizons.n_obs_steps;
  for (const KeySpec& key : spec.shape_meta.obs) {
    const int index = dataset.KeyIndex(key.name);
    const KeySpec& stored = dataset.spec().keys[static_cast<std::size_t>(index)];
    const Shape storage = stored.StorageShape();
    Shape shape = {1, n_obs_steps};
    shape.insert(shape.end(), storage.begin(), storage.end());
    Array window(stored.dtype, shape);
    const std::size_t n_bytes = window.byte_size() / static_cast<std::size_t>(n_obs_steps);
    for (std::int64_t i = 0; i < n_obs_steps; ++i) {  // repeats the first step before the start
      const std::int64_t from = begin + std::max<std::int64_t>(0, step - n_obs_steps + 1 + i);
      dataset.Read(index, from, from + 1,
                   window.bytes().subspan(static_cast<std::size_t>(i) * n_bytes, n_bytes));
    }
    if (key.type == KeyType::kLowDim && stored.dtype != DType::kFloat32) {
      Array numbers(DType::kFloat32, shape);
      data::ConvertElements(stored.dtype, window.bytes(), numbers.as<float>());
      window = std::move(numbers);
    }
    recorded.obs.emplace(key.name, std::move(window));
  }
  return recorded;
}

}  // namespace dp_bench::inspect
