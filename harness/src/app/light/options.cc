#include "app/light/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "config/name.h"
#include "core/errors.h"

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
  throw UsageError("there is no verb '{}'{} The verbs are {}.", first, Suggestion(first, "", verbs),
                   fmt::join(verbs, ", "));
}

void RequireKnownOptions(const CLI::App& verb) {
  for (const std::string& argument : verb.remaining()) {
    if (!argument.starts_with("-")) continue;
    const std::string name = argument.substr(0, argument.find('='));
    const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    const std::string place = verb.get_name() == "dp_bench" ? "" : " " + verb.get_name();
    throw UsageError("dp_bench{} has no option {}{} `dp_bench{} --help` lists them.", place, name,
                     Suggestion(bare, "--", LongOptions(verb)), place);
  }
}

CLI::Option* AddFolder(CLI::App* app, const char* name, std::filesystem::path* folder,
                       const std::string& text) {
  return app->add_option(name, *folder, text)->check(CLI::ExistingDirectory);
}

CLI::Option* AddChoice(CLI::App* app, const char* name, std::string* choice,
                       const std::vector<std::string>& choices, const std::string& text) {
  return app->add_option(name, *choice, text)->check(CLI::IsMember(choices))->capture_default_str();
}

void RequireValues(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      throw UsageError("{}: expected a value, found none", option->get_name());
    }
  }
  for (const CLI::App* verb : app.get_subcommands()) RequireValues(*verb);
}

void RequireUsed(const CLI::App& verb, std::string_view mode,
                 const std::vector<std::string_view>& used) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    const bool says_where = name == "--config-dir" || name == "--plugin-dir";
    if (option->empty() || says_where || std::ranges::find(used, name) != used.end()) continue;
    const std::string found = option->get_positional() ? option->results().front() : name;
    throw UsageError("dp_bench {} {} does not use {}, so leave it out. It uses {}", verb.get_name(),
                     mode, found, fmt::join(used, ", "));
  }
}

}  // namespace dp_bench::app
