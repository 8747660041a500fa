// The guard around every call into a plugin: every exception becomes an Error that names the plugin
// and the call, and what the contract says about the call is checked.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "core/call_watch.h"
#include "dp_bench/dataset.h"
#include "dp_bench/dataset_writer.h"
#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "plugin/open_call.h"

namespace dp_bench::plugin {

/// "env", "dataset", "writer" or "policy".
std::string KindName(PluginKind kind);

/// The plugin that a guarded call goes to.
struct PluginPlace {
  PluginKind kind = PluginKind::kEnv;
  std::string name;
  std::filesystem::path file;
  std::optional<std::uint64_t> seed = std::nullopt;  // of the episode that an env is in

  /// "env plugin 'pusht'".
  std::string Name() const;
  /// "in env plugin 'pusht' (libdpb_env_pusht.so), during Step".
  std::string Context(const char* during) const;
  /// Adds that to an error; nothing if the plugin has no name here.
  void AddContext(const char* during, Error* error) const;
};

/// An Error for an exception of a plugin that is not an Error, which breaks its contract.
Error ForeignExceptionError(const PluginPlace& place, const char* during, const std::string& what);

/// Calls `call` and returns its result. An Error passes through, with the plugin's name added;
/// std::bad_alloc passes through; anything else becomes Error{kPlugin}.
template <class Call>
decltype(auto) GuardCall(const PluginPlace& place, const char* during, Call&& call) {
  const OpenCallScope open(place, during);
  try {
    return std::forward<Call>(call)();
  } catch (Error& error) {
    place.AddContext(during, &error);
    throw;
  } catch (const std::bad_alloc&) {
    throw;  // a limit of the machine, not a breach of the contract
  } catch (const std::exception& exception) {
    throw ForeignExceptionError(place, during, exception.what());
  } catch (...) {
    throw ForeignExceptionError(place, during, "something that is not a std::exception");
  }
}

/// GuardCall that also notices if the call never returns (core/call_watch.h). It takes a lock, so
/// it is for calls that are made once per object.
template <class Call>
decltype(auto) WatchCall(const PluginPlace& place, const char* during, Call&& call) {
  core::CallWatch watch(place.Name());
  const core::CallWatch::Call watched(watch, during);
  return GuardCall(place, during, std::forward<Call>(call));
}

/// The same env, whose calls are known to go to this plugin. Its spec is checked now; Env itself
/// checks the calls.
std::unique_ptr<Env> GuardPlugin(std::unique_ptr<Env> env, PluginPlace place);

/// The same dataset with every call guarded. The spec and the ends of the episodes are checked
/// now.
std::unique_ptr<Dataset> GuardPlugin(std::unique_ptr<Dataset> dataset, PluginPlace place);

/// The same writer with every call guarded. The order of the calls and the sizes of the values are
/// checked.
std::unique_ptr<DatasetWriter> GuardPlugin(std::unique_ptr<DatasetWriter> writer, PluginPlace place,
                                           const DatasetSpec& spec);

}  // namespace dp_bench::plugin
