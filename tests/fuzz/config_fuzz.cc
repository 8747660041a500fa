// A config file, and after a NUL an override of the command line.
#include "config/document.h"
#include "config/json_source.h"
#include "config/loader.h"
#include "config/references.h"
#include "dp_bench/config.h"
#include "fuzz.h"

using namespace dp_bench;

namespace {

void ReadAll(const Config& config, int depth) {
  for (const std::string& key : config.Keys()) {
    fuzz::Accepts([&] { config.GetOptional<double>(key); });
    fuzz::Accepts([&] { config.Get<int>(key); });
    fuzz::Accepts([&] { config.Get<std::vector<std::string>>(key); });
    if (depth < 3) fuzz::Accepts([&] { ReadAll(config.Sub(key), depth + 1); });
  }
}

}  // namespace

DPB_FUZZ(input) {
  fuzz::Accepts([&] {
    const std::string_view text = input.TakeText();
    config::JsonSource source = config::ParseJsonSource(text, "config.json");
    config::MergeJsonSource(config::ParseJsonSource(text, "twice.json"), &source);
    if (!input.text().empty()) config::ApplyOverride(std::string(input.text()), &source);
    config::ResolveReferences(&source);
    const Config config(std::make_shared<config::ConfigDocument>(std::move(source)));
    fuzz::Accepts([&] { config.RejectUnread(); });
    ReadAll(config, 0);
    // an accepted config can be written and read back
    DPB_ASSERT(Config::FromJson(config.ToJson()).ToJson() == config.ToJson());
  });
}
