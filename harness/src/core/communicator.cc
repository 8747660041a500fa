#include "core/communicator.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "core/control_groups.h"
#include "core/parse_number.h"
#include "core/thread_pool.h"

namespace dp_bench::core {

std::string Communicator::FromRoot(const std::string& bytes) {
  return std::move(AllGather(is_root() ? bytes : std::string()).front());
}

int Communicator::AllReduceMax(int value) {
  for (const std::string& of_rank : AllGather(std::to_string(value))) {
    value = std::max(value, std::stoi(of_rank));
  }
  return value;
}

void Communicator::Abort(int exit_code) {
  EndOthers(exit_code);
  std::_Exit(exit_code);
}

namespace {

// The first of the variables that is a number.
int ReadNumber(std::initializer_list<const char*> variables, int default_value) {
  for (const char* variable : variables) {
    const char* const text = std::getenv(variable);
    const auto value = text == nullptr ? std::nullopt : ParseNumber<int>(text);
    if (value && *value >= 0) return *value;
  }
  return default_value;
}

void BindTo(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// The cores that the system lets this process use; it cuts a larger request down to them.
std::vector<int> AllowedCores() {
  const std::vector<int> before = UsableProcessors();
  std::vector<int> all(CPU_SETSIZE);
  for (int core = 0; core < CPU_SETSIZE; ++core) all[static_cast<std::size_t>(core)] = core;
  BindTo(all);
  std::vector<int> allowed = UsableProcessors();
  BindTo(before);
  return allowed;
}

}  // namespace

Launch ReadLaunch() {
  const int n_ranks = std::max(1, ReadNumber({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1));
  return {.n_ranks = n_ranks,
          .n_local_ranks =
              std::max(1, ReadNumber({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, n_ranks)),
          .local_rank = ReadNumber({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}, 0)};
}

bool ShareCores(const Launch& launch) {
  if (launch.n_ranks == 1 || std::getenv("OMP_NUM_THREADS") != nullptr) return false;
  const std::vector<int> allowed = AllowedCores();
  const auto n_local = static_cast<std::size_t>(launch.n_local_ranks);
  const std::size_t in_quota =
      static_cast<std::size_t>(ProcessorsInGroups().value_or(static_cast<int>(allowed.size())));
  const std::size_t n_usable = std::min(allowed.size(), in_quota);
  setenv("OMP_NUM_THREADS", std::to_string(std::max<std::size_t>(1, n_usable / n_local)).c_str(),
         /*replace=*/1);
  const std::size_t share = std::max<std::size_t>(1, allowed.size() / n_local);

  const std::size_t first = static_cast<std::size_t>(launch.local_rank) * share;
  if (UsableProcessors().size() < share && first + share <= allowed.size()) {
    const auto begin = allowed.begin() + static_cast<std::ptrdiff_t>(first);
    BindTo(std::vector<int>(begin, begin + static_cast<std::ptrdiff_t>(share)));
  }
  return true;
}

}  // namespace dp_bench::core
