// The guard around every call into a plugin: whatever is thrown becomes an Error that says which
// plugin and which call. The decorators implement the interface that they wrap.
#pragma once

#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"

namespace dp_bench::plugin {

/// "env", "dataset" or "policy".
std::string KindName(PluginKind kind);

/// Which plugin a guarded call goes to.
struct PluginPlace {
  PluginKind kind = PluginKind::kEnv;
  std::string name;
  std::filesystem::path file;

  /// "in env plugin 'pusht' (libdpb_env_pusht.so), during Step".
  std::string Context(const char* during) const;
};

/// An Error for something a plugin threw that is no Error: a breach of its contract.
Error ForeignExceptionError(const PluginPlace& place, const char* during, const std::string& what);

/// Calls `call` and returns its result. An Error passes with the plugin's name added to it;
/// std::bad_alloc passes; anything else is turned into Error{kPlugin}.
template <class Call>
decltype(auto) GuardCall(const PluginPlace& place, const char* during, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (Error& error) {
    error.AddContext(place.Context(during));
    throw;
  } catch (const std::bad_alloc&) {
    throw;  // the machine's limit, no breach of the plugin's contract
  } catch (const std::exception& exception) {
    throw ForeignExceptionError(place, during, exception.what());
  } catch (...) {
    throw ForeignExceptionError(place, during, "something that is not a std::exception");
  }
}

/// The same object with every call guarded.
std::unique_ptr<Env> GuardPlugin(std::unique_ptr<Env> env, PluginPlace place);
std::unique_ptr<Dataset> GuardPlugin(std::unique_ptr<Dataset> dataset, PluginPlace place);

}  // namespace dp_bench::plugin
