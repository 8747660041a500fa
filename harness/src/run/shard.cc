#include "run/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/parse_number.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

// A number from 0 on.
std::optional<int> NumberIn(std::string_view text) {
  const std::optional<int> value = core::ParseNumber<int>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

std::optional<std::string> Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// Where an engine writes which part a process is.
struct Engine {
  const char* index;
  const char* n;
  const char* first;  // the number of part 0; "": 0
};

constexpr std::array kEngines = {
    Engine{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ""},
    Engine{"PMI_RANK", "PMI_SIZE", ""},
    Engine{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"},
    Engine{"SLURM_PROCID", "SLURM_NTASKS", ""},
    Engine{"JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", ""},
    Engine{"RANK", "WORLD_SIZE", ""},
};
constexpr std::size_t kMaxShardBytes = 4096;
constexpr std::size_t kMpiEngines = 2;  // the first ones

int NumberOf(const char* name, const Getenv& getenv) {
  const std::optional<std::string> text = getenv(name);
  const std::optional<int> number = text ? NumberIn(*text) : std::nullopt;
  if (number) return *number;
  throw UsageError("--shard auto: expected a number in the environment variable {}, found {}", name,
                   text ? "'" + *text + "'" : "none");
}

SeedShard FromEngine(const Engine& engine, const Getenv& getenv) {
  SeedShard shard = {.index = NumberOf(engine.index, getenv), .n = NumberOf(engine.n, getenv)};
  const bool has_first = *engine.first != '\0' && getenv(engine.first);
  if (has_first) shard.index -= NumberOf(engine.first, getenv);
  if (shard.index >= 0 && shard.index < shard.n) return shard;
  throw UsageError("--shard auto: {} and {} say part {} of {}, expected 0 to {}", engine.index,
                   engine.n, shard.index, shard.n, shard.n - 1);
}

SeedShard Find(const Getenv& getenv) {
  for (std::size_t i = 0; i < kEngines.size(); ++i) {
    if (!getenv(kEngines[i].index)) continue;
    const SeedShard shard = FromEngine(kEngines[i], getenv);
    // srun with pmi2 makes each task of an array the only rank of its step
    if (i < kMpiEngines && shard.n == 1 && getenv("SLURM_ARRAY_TASK_ID")) continue;
    return shard;
  }
  std::string names;
  for (const Engine& engine : kEngines) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", engine.index);
  }
  throw UsageError(
      "--shard auto: nothing says which part this process is; looked for the environment variables "
      "{}. Give --shard i/n",
      names);
}

// A fixed order that has nothing to do with the numbers: Vigna's SplitMix64 (2015), a bijection.
std::uint64_t Mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace

void WriteShard(const std::filesystem::path& folder, const SeedShard& shard) {
  const nlohmann::json json = {{"index", shard.index}, {"n", shard.n}};
  core::WriteFileAtomically(folder / kShardFile, json.dump() + "\n");
}

std::optional<SeedShard> ShardOf(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kShardFile;
  if (!std::filesystem::exists(file)) return std::nullopt;
  const nlohmann::json json = core::ReadJsonFile(file, kMaxShardBytes);
  const std::string what = file.string();
  const core::JsonView view(json, what);
  const SeedShard shard = {.index = view.Get<int>("index"), .n = view.Get<int>("n")};
  if (shard.index < 0 || shard.index >= shard.n) {
    view.Fail("expected a shard from 0 to n - 1, found {} of {}", shard.index, shard.n);
  }
  return shard;
}

std::string SeedShard::FolderName() const { return fmt::format("shard_{}_of_{}", index, n); }

SeedShard ReadShard(std::string_view text, const Getenv& getenv) {
  if (text == "auto") return Find(getenv ? getenv : Environment);
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::optional<int> index = NumberIn(text.substr(0, slash));
  const std::optional<int> n =
      slash < text.size() ? NumberIn(text.substr(slash + 1)) : std::nullopt;
  if (index && n && *index < *n) return {.index = *index, .n = *n};
  throw UsageError("--shard: expected i/n with i from 0 to n - 1, such as 0/8, or auto; found '{}'",
                   text);
}

bool IsMpiRank() {
  return std::any_of(kEngines.begin(), kEngines.begin() + kMpiEngines,
                     [](const Engine& engine) { return Environment(engine.index).has_value(); });
}

int CountOf(const SeedShard& shard, int n_episodes) {
  return n_episodes / shard.n + (shard.index < n_episodes % shard.n ? 1 : 0);
}

std::vector<int> EpisodesOf(const SeedShard& shard, int n_episodes) {
  std::vector<int> order(static_cast<std::size_t>(n_episodes));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [](int place) { return Mixed(static_cast<std::uint64_t>(place)); });
  std::vector<int> own;
  for (auto i = static_cast<std::size_t>(shard.index); i < order.size();
       i += static_cast<std::size_t>(shard.n)) {
    own.push_back(order[i]);
  }
  std::ranges::sort(own);
  return own;
}

}  // namespace dp_bench::run
