// No type name of ours is defined twice in one namespace, or twice in the harness. The linker
// merges definitions of the same name, so an exception would run the wrong destructor (the
// one-definition rule, C++20 [basic.def.odr]). Types inside unnamed namespaces, functions and
// classes are private to them and may repeat.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

// Replaces comments and literals by blanks.
std::string CodeOf(const std::string& text) {
  static const std::regex kNoCode(
      R"re(//[^\n]*|/\*[\s\S]*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')re");
  std::string without_raw;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t raw = text.find("R\"", at);
    const std::size_t open = raw == std::string::npos ? raw : text.find('(', raw);
    without_raw += text.substr(at, open == std::string::npos ? open : raw - at);
    if (open == std::string::npos) break;
    const std::string end = ")" + text.substr(raw + 2, open - raw - 2) + "\"";
    const std::size_t close = text.find(end, open);
    at = close == std::string::npos ? text.size() : close + end.size();
  }
  return std::regex_replace(without_raw, kNoCode, " ");
}

// "dp_bench::run::RunFolder": the types that a file defines in named namespaces.
std::vector<std::string> FindTypes(const std::string& text) {
  static const std::regex kToken(
      R"re(namespace(?:\s+([A-Za-z_][\w:]*))?\s*\{|(?:class|struct|union)\s+(?:[A-Z_]+\s+)?([A-Z]\w*)(?:\s+final)?\s*(?::[^:;{}()][^;{}()]*)?\{|enum\s+(?:class\s+)?([A-Z]\w*)\s*(?::[^;{}]*)?\{|[{}])re");
  const std::string code = CodeOf(text);
  std::vector<std::string> types;
  std::vector<std::string> scopes;  // names of namespaces, "" for everything else
  const auto is_in_named_namespaces = [&scopes] {
    return std::ranges::none_of(scopes, [](const std::string& scope) { return scope.empty(); });
  };
  for (std::sregex_iterator it(code.begin(), code.end(), kToken), end; it != end; ++it) {
    const std::smatch& match = *it;
    if (match.str() == "}") {
      if (!scopes.empty()) scopes.pop_back();
    } else if (match[1].matched) {
      scopes.push_back(match[1]);
    } else {
      const std::string name = match[2].matched ? match[2].str() : match[3].str();
      if (!name.empty() && is_in_named_namespaces()) {
        std::string qualified;
        for (const std::string& scope : scopes) qualified += scope + "::";
        types.push_back(qualified + name);
      }
      scopes.emplace_back();
    }
  }
  return types;
}

std::string Read(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Key -> the files that define it, for keys with more than one file.
using Places = std::map<std::string, std::set<std::string>>;

Places Repeated(Places places) {
  std::erase_if(places, [](const auto& entry) { return entry.second.size() < 2; });
  return places;
}

Places TypesIn(const std::vector<std::string>& folders, bool with_namespace) {
  Places places;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(DPB_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cc") continue;
      for (const std::string& type : FindTypes(Read(entry.path()))) {
        places[with_namespace ? type : type.substr(type.rfind(':') + 1)].insert(entry.path());
      }
    }
  }
  return places;
}

TEST(TypeNames, AreFoundInNamedNamespacesOnly) {
  EXPECT_THAT(FindTypes(R"(
    // struct InAComment {};
    namespace a::b {
    namespace { struct Hidden {}; }
    struct Forward;
    class DPB_API Shown final : public Base<int> { struct Inner {}; };
    enum class Kind : int { kOne };
    void F() { struct Local {}; const char* text = "struct InAString {"; }
    template <class T> struct Pair { T a; };
    }
    struct Outside {};)"),
              ElementsAre("a::b::Shown", "a::b::Kind", "a::b::Pair", "Outside"));
}

TEST(TypeNames, APlantedDuplicateIsFound) {
  Places places;
  for (const char* file : {"one.cc", "two.cc"}) {
    for (const std::string& type : FindTypes("namespace dp_bench { struct Command {}; }")) {
      places[type].insert(file);
    }
  }
  EXPECT_THAT(Repeated(places), testing::SizeIs(1));
}

TEST(TypeNames, EachIsDefinedOnceInItsNamespace) {
  const Places places = TypesIn({"harness", "plugins"}, /*with_namespace=*/true);
  EXPECT_GT(places.size(), 300U) << "the pattern no longer finds types";
  EXPECT_THAT(Repeated(places), IsEmpty());
}

TEST(TypeNames, EachIsTheOnlyOneOfItsNameInTheHarness) {
  EXPECT_THAT(Repeated(TypesIn({"harness"}, /*with_namespace=*/false)), IsEmpty());
}

}  // namespace
