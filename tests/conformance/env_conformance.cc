// The program of the env conformance suite; the checks are in env_conformance_checks.cc. It loads
// the library through the plugin host, as dp_bench does.
//   env_conformance --plugin=libdpb_env_pusht.so --params=params.json [--isolate]
#include "env_conformance.h"

#include "conformance_main.h"
#include "plugin/isolated_env.h"
#include "support/counted_heap.h"

namespace dp_bench::conformance {

Config ParamsWith(const nlohmann::json& changes) {
  nlohmann::json params = subject().params;
  for (const auto& change : changes.items()) {
    params.erase(change.key());
    if (!change.value().is_null()) params[change.key()] = change.value();
  }
  return Config::FromJson(params.dump(), "params");
}

EnvSpec DescribeEnv(const Config& params) {
  if (!subject().is_isolated) return Catalogue().DescribeEnv(Plugin().name, params);
  return plugin::DescribeIsolatedEnv(Plugin().place(), params, {});
}

std::unique_ptr<Env> MakeEnv(const Config& params) {
  if (!subject().is_isolated) return Catalogue().Create<Env>(Plugin().name, params);
  return plugin::CreateIsolatedEnv(Plugin().place(), params, {});
}

int NumExpertSeeds() { return subject().settings.expert_seeds; }

long NumAllocations() { return n_allocations.load(); }

void FillNewMemory(int byte) { fill_of_allocations = byte; }

}  // namespace dp_bench::conformance

int main(int argc, char** argv) { return dp_bench::conformance::RunConformance(argc, argv); }
