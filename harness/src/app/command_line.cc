#include "app/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "config/name.h"
#include "dp_bench/error.h"

namespace dp_bench::app {
namespace {

std::string Suggestion(std::string_view name, std::string_view prefix,
                       const std::vector<std::string>& candidates) {
  const std::optional<std::string> nearest = config::NearestName(name, candidates);
  return nearest ? fmt::format("; did you mean {}{}?", prefix, *nearest) : std::string(".");
}

// Without dashes. Groups of options are subcommands without a name.
std::vector<std::string> LongOptions(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    std::ranges::copy(option->get_lnames(), std::back_inserter(names));
  }
  const auto is_group = [](const CLI::App* sub) { return sub->get_name().empty(); };
  for (const CLI::App* group : app.get_subcommands(is_group)) {
    std::ranges::copy(LongOptions(*group), std::back_inserter(names));
  }
  return names;
}

}  // namespace

void RequireKnownVerb(int argc, char** argv, const std::vector<std::string>& verbs) {
  if (argc < 2) return;
  const std::string_view first = argv[1];
  const bool is_verb = !first.starts_with('-') && first.find('=') == std::string_view::npos;
  if (!is_verb || std::ranges::find(verbs, first) != verbs.end()) return;
  throw Error(ErrorCode::kUsage, fmt::format("there is no verb '{}'{} The verbs are {}.", first,
                                             Suggestion(first, "", verbs), fmt::join(verbs, ", ")));
}

void RequireKnownOptions(const CLI::App& verb) {
  for (const std::string& argument : verb.remaining()) {
    if (!argument.starts_with("-")) continue;
    const std::string name = argument.substr(0, argument.find('='));
    const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    const std::string place = verb.get_name() == "dp_bench" ? "" : " " + verb.get_name();
    throw Error(ErrorCode::kUsage,
                fmt::format("dp_bench{} has no option {}{} `dp_bench{} --help` lists them.", place,
                            name, Suggestion(bare, "--", LongOptions(verb)), place));
  }
}

std::vector<std::uint64_t> ParseSeeds(std::string_view option,
                                      const std::vector<std::string>& texts) {
  std::vector<std::uint64_t> seeds;
  const std::string text = fmt::format("{}", fmt::join(texts, ","));
  const char* next = text.data();
  const char* const end = next + text.size();
  while (true) {
    std::int64_t seed = -1;
    const auto [stop, error] = std::from_chars(next, end, seed);
    const bool is_last = stop == end;
    if (error != std::errc() || seed < 0 || *next == '-' || (!is_last && *stop != ',')) {
      throw Error(
          ErrorCode::kUsage,
          fmt::format("{}: expected integers from 0 to {}, separated by commas, as in 42,43; "
                      "found '{}'",
                      option, std::numeric_limits<std::int64_t>::max(), text));
    }
    seeds.push_back(static_cast<std::uint64_t>(seed));
    if (is_last) return seeds;
    next = stop + 1;
  }
}

}  // namespace dp_bench::app
