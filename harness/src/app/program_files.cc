#include "app/program_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/errors.h"

namespace dp_bench::app {

namespace fs = std::filesystem;

fs::path ProgramFolder() { return fs::canonical("/proc/self/exe").parent_path(); }

fs::path FirstOf(const std::string& what, const std::vector<fs::path>& places) {
  std::string tried;
  for (const fs::path& place : places) {
    if (fs::exists(place)) return fs::canonical(place);
    tried += "\n  " + place.lexically_normal().string();
  }
  throw IoError("found no {}; looked for:{}", what, tried);
}

void Become(const fs::path& program, std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execvp(program.c_str(), argv.data());
  throw IoError("cannot start {}: {}", program.string(), strerror(errno));
}

}  // namespace dp_bench::app
