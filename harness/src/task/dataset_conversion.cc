#include "task/dataset_conversion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "config/dataset_format.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/progress.h"
#include "core/stop_signal.h"
#include "data/key_check.h"
#include "data/replay_writer.h"
#include "data/stats.h"
#include "dp_bench/dataset.h"
#include "dp_bench/dataset_writer.h"
#include "interop/feature_map.h"
#include "plugin/catalogue.h"
#include "task/source_facts.h"
#include "task/source_record.h"

namespace dp_bench::task {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kAction = "action";
constexpr std::size_t kMaxBlockBytes = std::size_t{64} << 20;  // read at a time

// The key as it is written: `format` may hold depth only in millimetres.
KeySpec KeyAsWritten(const KeySpec& key, const std::string& format) {
  KeySpec written = key;
  const bool has_only_millimetres =
      format == config::kZarrFormat || format == config::kLeRobotFormat;
  if (key.type == KeyType::kDepth && has_only_millimetres) written.dtype = DType::kUInt16;
  return written;
}

// float32 metres become uint16 millimetres, in the first half of `images`. Each is the nearest one;
// NaN and what is not above 0 become 0, which is no measurement, and 65535 is the highest.
void ToMillimetres(std::span<std::byte> images) {
  constexpr double kMillimetresPerMetre = 1000.0;
  constexpr double kHighest = 65535.0;
  const std::size_t n = images.size() / sizeof(float);
  for (std::size_t i = 0; i < n; ++i) {
    float metres = 0.0F;
    std::memcpy(&metres, images.data() + i * sizeof(metres), sizeof(metres));
    // exact: a float has 24 bits, and 1000 has 10
    const double exact = static_cast<double>(metres) * kMillimetresPerMetre;
    const auto millimetres =
        exact > 0.0 ? static_cast<std::uint16_t>(std::min(std::nearbyint(exact), kHighest))
                    : std::uint16_t{0};
    std::memcpy(images.data() + i * sizeof(millimetres), &millimetres, sizeof(millimetres));
  }
}

struct Source {
  fs::path path;
  std::unique_ptr<Dataset> dataset;
  double fps = 0.0;  // 0 if it is not known
  json facts{};      // FactsOfEpisodes
};

Source Open(const fs::path& path, const DatasetReading& reading,
            plugin::PluginCatalogue& catalogue) {
  Source source{.path = path, .dataset = OpenDataset(path, reading, catalogue)};
  source.fps = RateOf(*source.dataset, path, reading);
  source.facts = FactsOfEpisodes(path, source.dataset->episode_ends().size());
  return source;
}

// Steps [begin, end) of a source.
struct Piece {
  std::size_t source;
  std::int64_t episode;  // of the source
  std::int64_t begin;
  std::int64_t end;
};

// The episodes of all sources.
std::vector<Piece> AllPieces(std::span<const Source> sources) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::int64_t begin = 0;
    std::int64_t episode = 0;
    for (const std::int64_t end : sources[i].dataset->episode_ends()) {
      pieces.push_back({.source = i, .episode = episode++, .begin = begin, .end = end});
      begin = end;
    }
  }
  return pieces;
}

std::vector<Piece> Select(const std::vector<Piece>& all, std::span<const std::int64_t> episodes) {
  std::vector<Piece> selected;
  for (const std::int64_t episode : episodes) {
    if (episode < 0 || episode >= std::ssize(all)) {
      throw UsageError("there is no episode {}; expected 0 to {}", episode, std::ssize(all) - 1);
    }
    selected.push_back(all[static_cast<std::size_t>(episode)]);
  }
  return selected;
}

void DropSteps(const DatasetConversion& request, std::span<const Source> sources,
               std::vector<Piece>* pieces) {
  for (Piece& piece : *pieces) {
    const std::int64_t n_steps = piece.end - piece.begin;
    piece.begin += request.drop_first;
    piece.end -= request.drop_last;
    if (piece.begin < piece.end) continue;
    throw UsageError(
        "{}: episode {} has {} steps; without the first {} and the last {}, none are left. Leave "
        "out the episode as well.",
        sources[piece.source].path.string(), piece.episode, n_steps, request.drop_first,
        request.drop_last);
  }
}

std::string Describe(const Source& source) {
  std::vector<std::string> keys;
  for (const KeySpec& key : source.dataset->spec().keys) {
    keys.push_back(fmt::format("{} {}", key.name, data::Describe(key)));
  }
  return fmt::format("{} has {}, {}", source.path.string(), fmt::join(keys, ", "),
                     data::RateText(source.fps));
}

void RequireEqualSpecs(std::span<const Source> sources) {
  const Source& first = sources[0];
  for (const Source& source : sources) {
    if (source.dataset->spec().keys == first.dataset->spec().keys && source.fps == first.fps) {
      continue;
    }
    const bool is_known = source.fps > 0.0 && first.fps > 0.0;
    throw FormatError(is_known ? ErrorCode::kShape : ErrorCode::kUsage,
                      "datasets can be merged if they have the same keys and rate; {}; {}{}",
                      Describe(first), Describe(source),
                      is_known ? "" : ". Give the rate that is unknown with --fps.");
  }
}

// Datasets with the same numbers of channels may have them in another order. The names say so.
void RequireEqualChannels(std::span<const Source> sources) {
  const auto names_of = [](const Source& source, int key) {
    return source.dataset->ChannelNames(key);
  };
  for (int key = 0; key < std::ssize(sources[0].dataset->spec().keys); ++key) {
    const auto is_named = [&](const Source& source) { return !names_of(source, key).empty(); };
    const auto named = std::ranges::find_if(sources, is_named);
    if (named == sources.end()) continue;
    const std::string& name = sources[0].dataset->spec().keys[static_cast<std::size_t>(key)].name;
    const std::vector<std::string> first = names_of(*named, key);
    for (const Source& source : sources) {
      const std::vector<std::string> own = names_of(source, key);
      if (own == first) continue;
      if (own.empty()) {
        core::LogWarning(
            "the channels of '{}' have names in {}, but not in {}: they are joined in their order",
            name, named->path.string(), source.path.string());
        continue;
      }
      const auto [a, b] = std::ranges::mismatch(first, own);
      throw ShapeError(
          "datasets can be merged if their channels have the same order; channel {} of '{}' is "
          "'{}' in {}, but '{}' in {}. Write one of them again in the order of the other.",
          a - first.begin(), name, *a, named->path.string(), *b, source.path.string());
    }
  }
}

// Tells one copy from another, so that an output is not continued with other episodes.
std::string Identify(const DatasetConversion& request, std::span<const Source> sources) {
  std::vector<std::string> names;
  for (const Source& source : sources) {
    const std::span<const std::int64_t> ends = source.dataset->episode_ends();
    names.push_back(fmt::format("{} ({} episodes, {} steps)", core::NameOf(source.path).string(),
                                ends.size(), ends.back()));
  }
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (request.episodes) text += fmt::format("; episodes {}", fmt::join(*request.episodes, ","));
  if (request.drop_first > 0)
    text += fmt::format("; without the first {} steps", request.drop_first);
  if (request.drop_last > 0) text += fmt::format("; without the last {} steps", request.drop_last);
  if (!request.reading.keys.empty()) text += fmt::format("; keys {}", request.reading.keys);
  if (request.reading.fps) text += fmt::format("; at {} Hz", *request.reading.fps);
  return text;
}

// "version=v2.1", with a value in JSON or a plain text.
void SetParam(const std::string& text, json* params) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError("--param {}: expected <key>=<value>", text);
  }
  const std::string value = text.substr(equals + 1);
  const json parsed = json::parse(value, nullptr, /*allow_exceptions=*/false);
  (*params)[text.substr(0, equals)] = parsed.is_discarded() ? json(value) : parsed;
}

// A feature that is written and its keys, with a name per number if they are known.
struct FeatureRequest {
  std::string name;
  std::vector<std::string> keys;
  std::vector<std::string> channels;
};

std::vector<FeatureRequest> FeaturesByDefault(const DatasetSpec& spec,
                                              std::span<const std::string> asked) {
  ShapeMeta shape_meta;
  for (const KeySpec& key : spec.keys) {
    if (key.name != kAction) shape_meta.obs.push_back(key);
  }
  std::vector<FeatureRequest> features;
  for (const interop::FeatureBinding& binding : interop::NameFeatures(shape_meta, asked)) {
    features.push_back({.name = binding.feature.name, .keys = binding.keys});
  }
  features.push_back({.name = kAction, .keys = {kAction}});
  return features;
}

// The features that the keys were read from.
std::vector<FeatureRequest> FeaturesOfSource(const DatasetSpec& spec, const Dataset& source) {
  std::vector<FeatureRequest> features;
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    const auto key = static_cast<int>(i);
    const std::string name = source.FeatureName(key);
    auto found = std::ranges::find(features, name, &FeatureRequest::name);
    if (found == features.end()) found = features.insert(found, {.name = name});
    found->keys.push_back(spec.keys[i].name);
  }
  return features;
}

// The names that the source has for all numbers of a feature; or else none.
std::vector<std::string> ChannelsOf(const FeatureRequest& feature, const DatasetSpec& spec,
                                    const Dataset& source) {
  std::vector<std::string> channels;
  for (const std::string& name : feature.keys) {
    const auto key = std::ranges::find(spec.keys, name, &KeySpec::name) - spec.keys.begin();
    const std::vector<std::string> own = source.ChannelNames(static_cast<int>(key));
    if (own.empty()) return {};
    channels.insert(channels.end(), own.begin(), own.end());
  }
  return channels;
}

json ToJson(std::span<const FeatureRequest> features) {
  json result = json::object();
  for (const FeatureRequest& feature : features) {
    result[feature.name] = {{"keys", feature.keys}};
    if (!feature.channels.empty()) result[feature.name]["names"] = feature.channels;
  }
  return result;
}

class Conversion {
 public:
  Conversion(const DatasetConversion& request, plugin::PluginCatalogue& catalogue)
      : request_(request) {
    DPB_ASSERT(!request.sources.empty() && request.drop_first >= 0 && request.drop_last >= 0);
    for (const fs::path& path : request.sources) {
      sources_.push_back(Open(path, request.reading, catalogue));
    }
    RequireEqualSpecs(sources_);
    RequireEqualChannels(sources_);
    spec_.fps = sources_[0].fps;
    for (const KeySpec& key : sources_[0].dataset->spec().keys) {
      spec_.keys.push_back(KeyAsWritten(key, request.format));
    }
    pieces_ = AllPieces(sources_);
    if (request.episodes) pieces_ = Select(pieces_, *request.episodes);
    DropSteps(request, sources_, &pieces_);
    RequireFiniteNumbers();
    RequireRate();
  }
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;
  ~Conversion() {
    if (writer_ == nullptr) return;
    writer_.reset();
    if (!record_->IsNeeded()) record_->Remove();
  }

  // Opens the output, which is the first to change the disk. `outputs` are those of all requests.
  void Begin(std::span<const fs::path> outputs, plugin::PluginCatalogue& catalogue) {
    record_.emplace(request_, outputs);
    MakeWriter(catalogue);
    report_.notes = writer_->Notes();
    NoteLosses(catalogue);
    record_->Begin(writer_->n_episodes());
  }

  // Copies the episodes that are missing. False if it was stopped.
  bool Run(const std::function<void(const ConversionProgress&)>& progress) {
    const auto n_wanted = std::ssize(pieces_);
    while (writer_->n_episodes() < n_wanted) {
      if (!CopyEpisode(pieces_[static_cast<std::size_t>(writer_->n_episodes())])) {
        return false;
      }
      progress({.n_episodes = writer_->n_episodes(), .n_wanted = n_wanted, .n_steps = n_copied_});
    }
    return true;
  }

  void Finish() {
    writer_->Finish();
    record_->Remove();
  }

  ConvertedDataset Report() const {
    ConvertedDataset report = report_;
    report.n_episodes = writer_->n_episodes();
    for (const Piece& piece : pieces_) report.n_steps += piece.end - piece.begin;
    return report;
  }

 private:
  void MakeWriter(plugin::PluginCatalogue& catalogue) {
    const std::string source = Identify(request_, sources_);
    const bool is_lerobot = request_.format == config::kLeRobotFormat;
    if (!request_.map.empty() && !is_lerobot) {
      throw UsageError("--map is only for --format lerobot");
    }
    if (request_.format == config::kZarrFormat) {
      if (!request_.params.empty()) throw UsageError("--format zarr has no --param");
      writer_ = std::make_unique<data::ReplayDatasetWriter>(request_.output, source, spec_,
                                                            Channels(), Facts());
      return;
    }
    json params = {{"path", request_.output.string()}, {"source", source}};
    if (is_lerobot) {
      params["features"] = ToJson(Features());
      if (const json recorded = Recorded(catalogue); !recorded.is_null())
        params["recorded"] = recorded;
    }
    const auto channels = Channels();
    if (request_.format == config::kHdf5Format && !channels.empty()) params["channels"] = channels;
    for (const std::string& param : request_.params) SetParam(param, &params);
    writer_ = catalogue.Create<DatasetWriter>(request_.format,
                                              Config::FromJson(params.dump(), "--param"), spec_);
  }

  // What the writer cannot know.
  void NoteLosses(plugin::PluginCatalogue& catalogue) {
    for (std::size_t i = 0; i < spec_.keys.size(); ++i) {
      if (!IsInMetres(i)) continue;
      report_.notes.push_back(
          fmt::format("{}: metres rounded to millimetres; NaN and what is not above 0 became 0, "
                      "and what is above 65.535 m became that",
                      spec_.keys[i].name));
    }
    std::set<std::string> features;
    std::set<std::string> beside;
    std::set<std::string> readers;
    const json kept = request_.format == config::kZarrFormat ? Facts() : json::object();
    for (const Source& source : sources_) {
      const std::string reader = *readers.insert(catalogue.ReaderOf(source.path)).first;
      for (const auto& [fact, values] : source.facts.items()) {
        if (!kept.contains(fact)) beside.insert(fmt::format("{} of each episode", fact));
      }
      beside.merge(OtherAttributes(source.path));
      if (reader != config::kLeRobotFormat) continue;
      features.merge(FeaturesWithoutKey(source.path, *source.dataset));
      beside.merge(OtherMetaFiles(source.path));
    }
    if (!beside.empty() && !request_.is_described) {
      report_.notes.push_back(fmt::format("left out: {}", fmt::join(beside, ", ")));
    }
    // LeRobot's writer copies them, and names those that it cannot copy
    const bool is_lerobot_alone = request_.format == config::kLeRobotFormat && readers.size() == 1;
    if (!is_lerobot_alone && !features.empty()) {
      report_.notes.push_back(
          fmt::format("left out, because they are no keys: {}", fmt::join(features, ", ")));
    }
    if (readers.contains(config::kHdf5Format)) {
      report_.notes.push_back(
          "of HDF5 files, only the keys and the rate are copied: rewards, dones, states, next_obs, "
          "mask and env_args are left out unless they are keys");
    }
  }

  // What all sources say about the episodes that are copied; see FactsOfEpisodes.
  json Facts() const {
    json facts = json::object();
    for (const auto& [fact, values] : sources_[0].facts.items()) {
      const auto says = [&name = fact](const Source& other) { return other.facts.contains(name); };
      if (!std::ranges::all_of(sources_, says)) continue;
      for (const Piece& piece : pieces_) {
        facts[fact].push_back(
            sources_[piece.source].facts[fact][static_cast<std::size_t>(piece.episode)]);
      }
    }
    return facts;
  }

  // Whether a key is depth that is converted.
  bool IsInMetres(std::size_t key) const {
    return sources_[0].dataset->spec().keys[key].dtype != spec_.keys[key].dtype;
  }

  // Zarr folders and HDF5 files can do without one, as diffusion_policy's and ACT's do.
  void RequireRate() const {
    const bool has_no_rate =
        request_.format == config::kZarrFormat || request_.format == config::kHdf5Format;
    if (spec_.fps > 0.0 || has_no_rate) return;
    throw UsageError(
        "{} does not say at which rate it was recorded, and a dataset in the format {} does. Give "
        "its steps per second: --fps 30",
        sources_[0].path.string(), request_.format);
  }

  void RequireFiniteNumbers() const {
    for (std::size_t key = 0; key < spec_.keys.size(); ++key) {
      if (spec_.keys[key].is_image()) continue;
      for (const Piece& piece : pieces_) {
        const Source& source = sources_[piece.source];
        try {
          data::RequireFinite(*source.dataset, static_cast<int>(key), piece.begin, piece.end);
        } catch (Error& fault) {
          fault.AddContext(source.path.string());
          throw;
        }
      }
    }
  }

  // By key; only keys that have names for all their numbers.
  std::map<std::string, std::vector<std::string>> Channels() const {
    std::map<std::string, std::vector<std::string>> channels;
    for (std::size_t i = 0; i < spec_.keys.size(); ++i) {
      std::vector<std::string> names = sources_[0].dataset->ChannelNames(static_cast<int>(i));
      if (!names.empty()) channels[spec_.keys[i].name] = std::move(names);
    }
    return channels;
  }

  std::vector<FeatureRequest> Features() {
    const Dataset& first = *sources_[0].dataset;
    std::vector<FeatureRequest> features = first.has_features() && request_.map.empty()
                                               ? FeaturesOfSource(spec_, first)
                                               : FeaturesByDefault(spec_, request_.map);
    for (FeatureRequest& feature : features) {
      feature.channels = ChannelsOf(feature, spec_, first);
      report_.features.push_back(
          fmt::format("{}: {}", feature.name, fmt::join(feature.keys, ", ")));
    }
    return features;
  }

  // Where LeRobot's writer finds the episodes, to copy videos and columns that are no keys; null if
  // they are not all from LeRobot datasets.
  json Recorded(plugin::PluginCatalogue& catalogue) const {
    json folders = json::array();
    for (const Source& source : sources_) {
      if (catalogue.ReaderOf(source.path) != config::kLeRobotFormat) return nullptr;
      json features = json::object();
      for (std::size_t i = 0; i < spec_.keys.size(); ++i) {
        features[spec_.keys[i].name] = source.dataset->FeatureName(static_cast<int>(i));
      }
      folders.push_back({{"path", source.path.string()}, {"features", features}});
    }
    std::vector<std::size_t> folder_of;
    std::vector<std::int64_t> episode_of;
    for (const Piece& piece : pieces_) {
      folder_of.push_back(piece.source);
      episode_of.push_back(piece.episode);
    }
    return {{"folders", folders},
            {"folder_of", folder_of},
            {"episode_of", episode_of},
            {"drop_first", request_.drop_first},
            {"drop_last", request_.drop_last},
            {"only_keys", !request_.reading.keys.empty()}};
  }

  std::string TaskOf(const Piece& piece) const {
    const Source& source = sources_[piece.source];
    std::string task = source.dataset->Task(piece.episode);
    // a format with features has tasks, also empty ones; zarr folders can do without
    const bool needs_task =
        request_.format != config::kZarrFormat && !source.dataset->has_features();
    const bool is_stated = !task.empty() || (request_.task.empty() && !needs_task);
    if (is_stated) return task;
    return request_.task.empty() ? core::NameOf(source.path).stem().string() : request_.task;
  }

  // False if it was stopped.
  bool CopyEpisode(const Piece& piece) {
    writer_->BeginEpisode({.n_steps = piece.end - piece.begin, .task = TaskOf(piece)});
    const std::int64_t block = StepsPerBlock();
    for (std::int64_t at = piece.begin; at < piece.end; at += block) {
      if (request_.stop != nullptr && *request_.stop) return false;
      CopySteps(*sources_[piece.source].dataset, at, std::min(at + block, piece.end));
    }
    return true;
  }

  std::int64_t StepsPerBlock() const {
    std::size_t bytes = 0;
    for (const KeySpec& key : sources_[0].dataset->spec().keys) bytes += key.ByteSize();
    return static_cast<std::int64_t>(std::max<std::size_t>(kMaxBlockBytes / bytes, 1));
  }

  void CopySteps(const Dataset& dataset, std::int64_t begin, std::int64_t end) {
    const std::vector<KeySpec>& keys = spec_.keys;
    const auto n = static_cast<std::size_t>(end - begin);
    blocks_.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      blocks_[i].resize(n * dataset.spec().keys[i].ByteSize());
      dataset.Read(static_cast<int>(i), begin, end, blocks_[i]);
      if (IsInMetres(i)) ToMillimetres(blocks_[i]);
    }
    std::vector<std::span<const std::byte>> values(keys.size());
    for (std::size_t step = 0; step < n; ++step) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::size_t bytes = keys[i].ByteSize();
        values[i] = std::span(blocks_[i]).subspan(step * bytes, bytes);
      }
      writer_->Append(values);
    }
    n_copied_ += end - begin;
  }

  const DatasetConversion& request_;
  std::vector<Source> sources_;
  DatasetSpec spec_;
  std::vector<Piece> pieces_;
  std::optional<SourceRecord> record_;
  std::unique_ptr<DatasetWriter> writer_;
  std::vector<std::vector<std::byte>> blocks_;  // per key
  std::int64_t n_copied_ = 0;                   // steps
  ConvertedDataset report_;
};

}  // namespace

ConversionReport ConvertDatasets(std::span<const DatasetConversion> requests,
                                 plugin::PluginCatalogue& catalogue,
                                 const std::function<void(const ConversionProgress&)>& progress) {
  std::vector<std::unique_ptr<Conversion>> conversions;
  for (const DatasetConversion& request : requests) {
    conversions.push_back(std::make_unique<Conversion>(request, catalogue));
  }
  std::vector<fs::path> outputs;
  for (const DatasetConversion& request : requests) outputs.push_back(request.output);
  for (const std::unique_ptr<Conversion>& conversion : conversions) {
    conversion->Begin(outputs, catalogue);
  }
  ConversionReport report;
  for (const std::unique_ptr<Conversion>& conversion : conversions) {
    if (conversion->Run(progress)) continue;
    report.is_interrupted = true;
    break;
  }
  for (const std::unique_ptr<Conversion>& conversion : conversions) {
    report.outputs.push_back(conversion->Report());
    if (!report.is_interrupted) conversion->Finish();
  }
  return report;
}

ConversionReport ConvertShowingProgress(std::vector<DatasetConversion> requests,
                                        plugin::PluginCatalogue& catalogue) {
  for (DatasetConversion& request : requests) request.stop = &core::CatchStopSignals();
  core::Progress progress(core::Progress::StandardError(), 0);
  ConversionReport report =
      ConvertDatasets(requests, catalogue, [&progress](const ConversionProgress& state) {
        progress.Update({.done = state.n_episodes, .total = state.n_wanted, .unit = "episodes"},
                        "convert", fmt::format("{} steps", state.n_steps));
        if (state.n_episodes < state.n_wanted) return;
        progress.Pause();
        core::PrintStatus("putting its files together\n");
      });
  progress.Pause();
  return report;
}

}  // namespace dp_bench::task
