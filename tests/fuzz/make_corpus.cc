// Writes the seeds of the fuzz targets into the folder given as argument, with the writers of the
// formats: make_corpus tests/fuzz/corpus
#include <blosc.h>
#include <fmt/format.h>
#include <zip.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "compare/gate.h"
#include "compare/gate_report.h"
#include "core/atomic_file.h"
#include "core/crc32c.h"
#include "core/temporary_folder.h"
#include "data/replay_writer.h"
#include "dp_bench/error.h"
#include "interop/policy_folder.h"
#include "report/gate_output.h"
#include "run/checkpoint.h"
#include "run/episode_log.h"
#include "run/planning.h"
#include "run/video_notes.h"
#include "train/train_state.h"
#include "wire/message.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using namespace std::string_literals;
using namespace std::string_view_literals;

constexpr std::size_t kMaxBytes = 1 << 20;

std::string TextOf(const fs::path& file) { return core::ReadTextFile(file, kMaxBytes); }

const std::string kConfig =
    R"({"env": {"plugin": "pusht", "params": {"task": "t"}}, "policy": {"plugin": "unet_hybrid"},
 "env_runner": {"n_test": 2, "test_start_seed": 100000, "max_steps": 300, "video_size": [96, 96]},
 "training": {"lr": 1e-4, "use_ema": true, "betas": [0.9, 0.999]}}  // with a comment
)";
const std::string kReferences =
    R"({"a": 16, "b": "${eval: (${a} - 1.5) / 2}", "c": {"d": "${a}", "e": ["n_${a}", "$${a}"]},
 "f": "${c}", "g": "${f.e.0}", "h": "${eval:'${a} * -1'}", "i": "${j}", "j": "${c.d}"})";
const std::string kManifest =
    R"({"plugins": [{"kind": "env", "name": "pusht", "version": "1", "sha256": "0"}],
 "checkpoint": {"folder": "c", "weights": "ema", "sha256": "0"},
 "seeds": {"report": {"first": 1, "n": 2}, "selection": {"first": 5, "n": 2}}})";

// The folder for the files of one target.
class Corpus {
 public:
  explicit Corpus(fs::path folder) : folder_(std::move(folder)) { fs::create_directories(folder_); }
  void Add(const std::string& name, std::string_view bytes) const {
    core::WriteFileAtomically(folder_ / name, bytes);
  }

 private:
  fs::path folder_;
};

std::vector<run::EpisodeRecord> Episodes() {
  std::vector<run::EpisodeRecord> records;
  for (int i = 0; i < 10; ++i) {
    run::EpisodeRecord record = {.episode = i, .split = "test"};
    record.seed = 100000 + static_cast<std::uint64_t>(i);
    record.score = 0.1 * i;
    record.success = i % 2 == 0;
    record.n_steps = 300;
    record.trace_hash = "a1b2";
    record.metrics = {0.5};
    record.course = run::EpisodeCourse{.first_reward = 0.1, .last_reward = 0.9, .best_step = 7};
    if (i == 3) record.failure_reason = "the simulation diverged";
    if (i == 4) record.video = "media/test_100004.mp4";
    records.push_back(record);
  }
  return records;
}

void AddRuns(const fs::path& root) {
  const run::RunResult result = {.records = Episodes(), .metric_names = {"coverage"}};
  const std::string rows = run::EpisodesJsonl(result);
  Corpus(root / "episode_journal").Add("whole", rows);
  Corpus(root / "episode_journal").Add("killed", rows.substr(0, rows.size() / 2));

  const std::string log =
      "{\"epoch\": 0, \"train_loss\": 0.5}\n{\"epoch\": 1, \"train_loss\": 0.25}\n{\"epoch\"";
  const run::PlanningLatency alone = {
      .batch_size = 1, .chunk_s = {0.25}, .stage_s = {{"denoising step", {0.125}}}};
  const run::PolicyLatencySummary latency = {
      .control_hz = 10.0, .deadline_s = 0.1, .alone = run::Summarize(alone, 0.1)};
  std::string run;
  for (const std::string& text : {rows, run::EvalLogJson(result), log, kConfig, kManifest}) {
    run += text + '\0';
  }
  Corpus(root / "run_folder").Add("run", run + ToJson(latency).dump());

  run::RunFolder folder = {.path = "run", .episodes = result.records};
  folder.config = Json::parse(kConfig, nullptr, true, /*ignore_comments=*/true).dump();
  folder.manifest = kManifest;
  Corpus baselines(root / "baseline");
  baselines.Add("baseline", compare::BaselineJson(folder));
  baselines.Add("lerobot", R"({"per_task": [{"task_group": "a", "task_id": 0, "metrics": )"
                           R"({"successes": [true], "max_rewards": [1.0]}}]})");
  baselines.Add("vla_eval", R"({"tasks": [{"task": "a", "episodes": [{"episode_id": 0, )"
                            R"("metrics": {"success": true}}]}]})");
  baselines.Add("diffusion_policy", R"({"test/sim_max_reward_100000": 1.0})");
  baselines.Add("table", "task,seed,success,score\n\"a, b\",1,true,0.5\n");
  const compare::SequentialTestConfig config = {.block_size = 2};
  const compare::GateReport report =
      compare::JudgeTasks(config, {compare::RunGate(folder, folder, config)});
  Corpus(root / "gate_state").Add("state", ToJson(report).dump());
}

interop::LerobotPolicy SmallLerobotPolicy() {
  interop::LerobotPolicy policy;
  policy.config.inputs = {{.name = "observation.state", .shape = {1}},
                          {.name = "observation.image",
                           .type = interop::LerobotFeatureType::kVisual,
                           .shape = {3, 8, 8}}};
  policy.config.action = {
      .name = "action", .type = interop::LerobotFeatureType::kAction, .shape = {1}};
  policy.config.normalization_mapping = {
      {interop::LerobotFeatureType::kState, interop::LerobotNorm::kMinMax}};
  policy.config.resize_shape = {8, 8};
  policy.config.crop_shape = {7, 7};
  policy.config.down_dims = {8};
  policy.config.noise_scheduler_type = "DDIM";
  policy.config.prediction_type = "epsilon";
  policy.stats["observation.state"] = {.min = {0.0}, .max = {1.0}};
  return policy;
}

void AddTensors(const fs::path& root, const fs::path& scratch) {
  ArrayMap tensors;
  tensors.emplace("weight", Array(DType::kFloat32, {2, 2}));
  tensors.emplace("step", Array(DType::kInt64, {}));
  run::WriteSafetensors(scratch / "t", tensors, {{"format", "pt"}});
  Corpus(root / "safetensors").Add("two", TextOf(scratch / "t"));

  run::WriteVideoNotes(scratch / "f", {.n_action_steps = 2,
                                       .action_dim = 1,
                                       .n_marks = 1,
                                       .plan_step = {0},
                                       .plan = {1, 2},
                                       .plan_marks = {0.1F, 0.2F, 0.3F, 0.4F},
                                       .state_marks = {0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F},
                                       .reward = {0.5, 1.0},
                                       .success = {0, 1}});
  Corpus(root / "video_notes").Add("marks", TextOf(scratch / "f"));

  const fs::path policy = scratch / "p";
  fs::create_directory(policy);
  interop::WriteLerobotPolicy(policy, SmallLerobotPolicy());
  Corpus policies(root / "lerobot_policy");
  for (const char* name : {"config", "policy_preprocessor", "policy_postprocessor"}) {
    policies.Add(name, TextOf(policy / (std::string(name) + ".json")));
  }

  const fs::path folder = scratch / "c";
  fs::create_directories(folder);
  train::TrainState state = {.global_step = 7, .topk = {{"epoch=0001-x=0.5", 0.5}}};
  state.saved_as = {"epoch=0001-x=0.5"};
  state.last_step = train::TrainStepResult{.loss = 0.5, .parts = {{"a", 0.5}}, .n_rows = 8};
  run::CheckpointContents contents = {.config = kConfig, .state = state.ToJson()};
  contents.tensors[std::string(run::kModelFile)] = std::move(tensors);
  run::WriteCheckpointFiles(folder, contents);
  const std::string manifest = TextOf(folder / "manifest.json");
  const std::string rest = '\0' + contents.state + '\0' + contents.config;
  Corpus(root / "checkpoint").Add("sealed", manifest + rest);
  Json first = Json::parse(manifest);  // the first format has no seal that mutations would break
  first["format_version"] = 1;
  Corpus(root / "checkpoint").Add("unsealed", first.dump() + rest);
}

// A dataset as `collect` writes it.
void WriteReplay(const fs::path& folder) {
  const std::vector<KeySpec> keys = {
      {.name = "action", .shape = {2}, .dtype = DType::kFloat32},
      {.name = "image", .type = KeyType::kRgb, .shape = {3, 2, 2}, .dtype = DType::kUInt8}};
  data::ReplayEpisode episode(keys);
  const std::vector<std::byte> action(8);
  const std::vector<std::byte> image(12);
  for (int i = 0; i < 3; ++i) {
    const std::vector<std::span<const std::byte>> values = {action, image};
    episode.Append(values);
  }
  data::ReplayWriter writer(folder, keys, {{"env", "pusht"}});
  writer.Append(episode);
  writer.Commit({{"fps", 10.0}}, true);
}

std::string Zipped(const fs::path& folder, const fs::path& file, zip_int32_t method) {
  int code = 0;
  zip_t* const archive = zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  DPB_ASSERT(archive != nullptr);
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().lexically_relative(folder).string();
    zip_source_t* const source = zip_source_file(archive, entry.path().c_str(), 0, -1);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
    DPB_ASSERT(index >= 0);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), method, 0);
  }
  DPB_ASSERT(zip_close(archive) == 0);
  return TextOf(file);
}

void AddReplay(const fs::path& root, const fs::path& scratch) {
  const fs::path folder = scratch / "replay";
  WriteReplay(folder);
  const Corpus zips(root / "zip_store");
  zips.Add("stored", Zipped(folder, scratch / "stored.zip", ZIP_CM_STORE));
  zips.Add("deflated", Zipped(folder, scratch / "deflated.zip", ZIP_CM_DEFLATE));
  const Corpus metadata(root / "zarr_metadata");
  metadata.Add("array", '\0' + TextOf(folder / "data/image/.zarray"));
  metadata.Add("attributes", '\1' + TextOf(folder / ".zattrs"));
}

// A shard of two chunks [2, 2], of which the second is not stored; and files of one chunk, in
// another order of axes: see zarr_shards_fuzz.cc.
void AddShards(const fs::path& root) {
  const Json bytes = {{"name", "bytes"}, {"configuration", {{"endian", "big"}}}};
  const Json sharding = {{"name", "sharding_indexed"},
                         {"configuration",
                          {{"chunk_shape", {2, 2}},
                           {"codecs", {bytes, "crc32c"}},
                           {"index_codecs", {"bytes", "crc32c"}},
                           {"index_location", "end"}}}};
  const Json transpose = {{"name", "transpose"}, {"configuration", {{"order", {1, 0}}}}};
  Json node = {{"zarr_format", 3},
               {"node_type", "array"},
               {"shape", {7, 2}},
               {"data_type", "float32"},
               {"fill_value", "NaN"},
               {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", {4, 2}}}}}},
               {"chunk_key_encoding", {{"name", "v2"}}},
               {"codecs", Json::array({sharding})},
               {"attributes", {{"fps", 10}, {"dp_bench_type", "low_dim"}}}};
  const auto append = [](auto number, std::string* out) {
    out->append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  std::string shard(16, '\1');
  append(core::Crc32c(shard), &shard);
  std::string index;
  for (const std::uint64_t number : {0UL, 20UL, ~0UL, ~0UL}) append(number, &index);
  append(core::Crc32c(index), &index);
  const Corpus corpus(root / "zarr_shards");
  const std::string nul(1, '\0');
  corpus.Add("shards", '\1' + node.dump() + nul + shard + index);
  const Corpus metadata(root / "zarr_metadata");
  metadata.Add("node", '\2' + node.dump());
  metadata.Add("node_attributes", '\3' + node.dump());
  node["codecs"] = {transpose, "bytes"};
  corpus.Add("transposed", '\1' + node.dump() + nul + std::string(32, '\1'));
  const Json array = {{"zarr_format", 2}, {"shape", {7, 2}}, {"chunks", {4, 2}},
                      {"order", "F"},     {"dtype", ">i2"},  {"compressor", nullptr},
                      {"fill_value", 3}};
  corpus.Add("version_2", nul + array.dump() + nul + std::string(16, '\1'));
}

// A byte for the compressor, three for the size, the file: see zarr_chunks_fuzz.cc.
void AddChunks(const fs::path& root) {
  const Corpus corpus(root / "zarr_chunks");
  std::string chunk(1000, '\0');
  for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<char>(i / 7);
  const std::string size = {'\0', static_cast<char>(999 / 256), static_cast<char>(999 % 256)};
  corpus.Add("raw", '\0' + size + chunk);

  std::string out(4096, '\0');
  uLongf n_zlib = out.size();
  compress(reinterpret_cast<Bytef*>(out.data()), &n_zlib,
           reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
  corpus.Add("zlib", '\1' + size + out.substr(0, n_zlib));
  const std::size_t n_zstd = ZSTD_compress(out.data(), out.size(), chunk.data(), chunk.size(), 3);
  corpus.Add("zstd", '\2' + size + out.substr(0, n_zstd));
  for (const char* codec : {"blosclz", "lz4", "zlib", "zstd"}) {
    for (const int shuffle : {BLOSC_NOSHUFFLE, BLOSC_SHUFFLE, BLOSC_BITSHUFFLE}) {
      const int n = blosc_compress_ctx(5, shuffle, 4, chunk.size(), chunk.data(), out.data(),
                                       out.size(), codec, 0, 1);
      corpus.Add(fmt::format("blosc_{}_{}", codec, shuffle),
                 '\3' + size + out.substr(0, static_cast<std::size_t>(n)));
    }
  }
}

// One of each kind of value; arrays in each form, images, numbers of numpy.
void AddMessages(const fs::path& root) {
  using wire::List;
  using wire::Map;
  const Corpus corpus(root / "wire");
  const std::vector<std::byte> bytes(24, std::byte{1});
  const wire::Value values = Map{{"endpoint", "get_action"},
                                 {"state", wire::CopyOf("<f4", {1, 6}, bytes)},
                                 {"image", wire::CopyOf("|u1", {2, 4, 3}, bytes)},
                                 {"list", List{-1, 300, 0.5, true, std::monostate(), bytes}},
                                 {"options", Map()}};
  const auto add = [&](const std::string& name, const wire::Value& value, wire::ArrayForm form) {
    corpus.Add(name, wire::Write(value, form));
  };
  add("openpi", values, wire::ArrayForm::kOpenPi);
  add("vla_eval", values, wire::ArrayForm::kVlaEval);
  add("msgpack_numpy", values, wire::ArrayForm::kMsgpackNumpy);
  add("npy", values, wire::ArrayForm::kNpy);

  constexpr std::string_view kPng =  // one grey pixel
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\xda"
      "c`\0\0\0\2\0\1\xe5'\xde\xfc\0\0\0\0IEND\xae"
      "B`\x82"sv;
  const auto file = std::as_bytes(std::span(kPng));
  const auto image = [](std::string format, wire::Bytes data, List shape) {
    return Map{{"__image__", true},
               {"format", std::move(format)},
               {"data", std::move(data)},
               {"shape", std::move(shape)},
               {"dtype", "|u1"}};
  };
  const wire::Value marked =
      List{image("raw", bytes, {2, 4, 3}), image("png", {file.begin(), file.end()}, {1, 1, 1}),
           Map{{"__npgeneric__", true}, {"data", 1.5}, {"dtype", "<f4"}},
           Map{{"nd", false}, {"type", "<i8"}, {"data", wire::Bytes(8)}}};
  add("marked", marked, wire::ArrayForm::kVlaEval);
}

void MakeCorpus(const fs::path& root) {
  const core::TemporaryFolder scratch;
  Corpus(root / "config").Add("experiment", kConfig + "\0training.lr=2e-4"s);
  Corpus(root / "config").Add("references", kReferences + "\0b=${eval: -(${a} + 2) // 3 % 4}"s);
  AddRuns(root);
  AddTensors(root, scratch.path());
  AddReplay(root, scratch.path());
  AddChunks(root);
  AddShards(root);
  AddMessages(root);
}

}  // namespace
}  // namespace dp_bench

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  dp_bench::MakeCorpus(argv[1]);
  return 0;
}
