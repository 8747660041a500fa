// The command line: kinds of options, and errors for unknown verbs and options, with suggestions.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dp_bench::app {

/// Runs a verb whose options were parsed. Returns the exit code.
using Verb = std::function<int()>;

// Kinds of options.

/// For CLI::Option::check: nan is in every CLI::Range. Returns what is wrong.
inline std::string RefuseNan(const std::string& text) {
  if (CLI::detail::to_lower(text).find("nan") == std::string::npos) return "";
  return "Value " + text + " is not a number; expected a finite one";
}

/// A number from `low` to `high`; --help shows its default.
template <class T>
CLI::Option* AddNumber(CLI::App* app, const char* name, T* number, std::type_identity_t<T> low,
                       std::type_identity_t<T> high, const std::string& text) {
  return app->add_option(name, *number, text)
      ->check(CLI::Range(low, high))
      ->check(&RefuseNan)
      ->capture_default_str();
}

/// A folder that must exist.
CLI::Option* AddFolder(CLI::App* app, const char* name, std::filesystem::path* folder,
                       const std::string& text);

/// One of several words; --help shows its default.
CLI::Option* AddChoice(CLI::App* app, const char* name, std::string* choice,
                       const std::vector<std::string>& choices, const std::string& text);

/// Values with commas between them.
template <class T>
CLI::Option* AddList(CLI::App* app, const char* name, std::vector<T>* values,
                     const std::string& text) {
  return app->add_option(name, *values, text)->delimiter(',')->allow_extra_args(false);
}

// What CLI11 does not check.

/// Throws Error{kUsage} if the first argument looks like a verb but is not one of `verbs`.
void RequireKnownVerb(int argc, char** argv, const std::vector<std::string>& verbs);

/// Call it for a command line that CLI11 refused. Throws Error{kUsage} if `verb` was given an
/// unknown option, which explains the error better than a missing required option.
void RequireKnownOptions(const CLI::App& verb);

/// Throws Error{kUsage} for an option with an empty value: an unset variable of a script, as in
/// --json "$RESULT", must not leave out the result.
void RequireValues(const CLI::App& app);

/// Throws Error{kUsage} if the command line has an option of `verb` that is not one of `used`:
/// `mode`, such as "--published", would ignore it. --config-dir and --plugin-dir only say where
/// things are, so they may always be given.
void RequireUsed(const CLI::App& verb, std::string_view mode,
                 const std::vector<std::string_view>& used);

}  // namespace dp_bench::app
