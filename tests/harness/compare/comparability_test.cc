#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/pairing.h"
#include "harness/compare/run_folders.h"
#include "run/manifest.h"
#include "support/error_of.h"

namespace dp_bench::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Comparability : public testing::Test {
 protected:
  Comparability() {
    a_.path = "a";
    b_.path = "b";
  }

  // The mismatches after a value of B's config changed.
  std::vector<Mismatch> With(const char* place, const nlohmann::json& value) {
    nlohmann::json config = SmallConfig();
    config[nlohmann::json::json_pointer(place)] = value;
    b_.config = config.dump();
    return FindMismatches(a_, b_);
  }

  run::RunFolder a_ = SmallRun("ssf");
  run::RunFolder b_ = SmallRun("fsf");
};

TEST_F(Comparability, TwoPoliciesOnOneTaskAreComparable) {
  EXPECT_THAT(With("/policy/plugin", "transformer"), IsEmpty());
  EXPECT_THAT(With("/n_action_steps", 4), IsEmpty());
  EXPECT_THAT(With("/env/params/python", "/opt/sim/bin/python"), IsEmpty());
  EXPECT_THAT(ComparabilityNotes(a_, b_), IsEmpty());
}

TEST_F(Comparability, NamesTheFieldThatDiffers) {
  const auto task = With("/env/params/task", "lift");
  ASSERT_EQ(task.size(), 1U);
  EXPECT_EQ(task[0].field, "env.params.task");
  EXPECT_EQ(task[0].a, "\"push\"");
  EXPECT_EQ(task[0].b, "\"lift\"");
  EXPECT_EQ(With("/env/plugin", "kuavo_dualarm").at(0).field, "env.plugin");
  EXPECT_EQ(With("/env", {{"plugin", "kuavo_dualarm"}, {"params", {{"task", "lift"}}}}).size(), 1U);
  EXPECT_EQ(With("/env/params/size/1", 128).at(0).field, "env.params.size.1");
  EXPECT_EQ(With("/env/params/noise", 0.1).at(0).a, "absent");
  EXPECT_EQ(With("/env_runner/max_steps", 200).at(0).field, "env_runner.max_steps");
  EXPECT_EQ(
      With("/env_runner", {{"max_steps", 300}, {"realtime", 2.0}, {"realtime_latency_ms", 50}})
          .at(0)
          .field,
      "simulated latency [ms]");
  EXPECT_TRUE(
      With("/env_runner", {{"max_steps", 300}, {"realtime", false}, {"realtime_latency_ms", 50}})
          .empty());
}

TEST_F(Comparability, ComparesTheVersionOfTheEnvAndNotesAnotherBuild) {
  nlohmann::json manifest = SmallManifest();
  manifest["plugins"][0]["version"] = "9.9.9";  // of the policy
  manifest["plugins"][1]["sha256"] = "33";
  b_.manifest = manifest.dump();
  EXPECT_THAT(FindMismatches(a_, b_), IsEmpty());
  EXPECT_THAT(ComparabilityNotes(a_, b_),
              ElementsAre(HasSubstr("different builds of the env plugin")));
  manifest["plugins"][0]["sha256"] = "44";
  b_.manifest = manifest.dump();
  EXPECT_THAT(ComparabilityNotes(a_, b_),
              ElementsAre(HasSubstr("the env plugin"), HasSubstr("the policy plugin")));

  manifest["plugins"][1]["version"] = "1.3.0";
  b_.manifest = manifest.dump();
  ASSERT_EQ(FindMismatches(a_, b_).size(), 1U);
  EXPECT_EQ(FindMismatches(a_, b_)[0].field, "env plugin version");
}

TEST_F(Comparability, ComparesTheSeeds) {
  b_.episodes.pop_back();
  EXPECT_THAT(FindMismatches(a_, b_), IsEmpty()) << "two seeds are shared";
  for (run::EpisodeRecord& record : b_.episodes) record.seed += 100;
  const auto mismatches = FindMismatches(a_, b_);
  ASSERT_EQ(mismatches.size(), 1U);
  EXPECT_EQ(mismatches[0].field, "the list of test seeds");
  EXPECT_EQ(mismatches[0].a, "3 from 100000 to 100002");
  EXPECT_EQ(mismatches[0].b, "2 from 100100 to 100101");
}

TEST_F(Comparability, OutcomesThatAreNoFunctionOfTheSeedAreUnpaired) {
  run::DeterminismCertificate certificate = {.first_seed = 100000, .n_seeds = 3, .n_steps = 20};
  const auto note = [&] {
    nlohmann::json manifest = SmallManifest();
    manifest[run::kDeterminismKey] = run::ToJson(certificate);
    b_.manifest = manifest.dump();
  };
  note();
  EXPECT_EQ(WhyUnpaired(a_, b_), "");
  certificate.difference = {.condition = "after other seeds", .step = 3, .key = "pos"};
  note();
  EXPECT_THAT(WhyUnpaired(a_, b_),
              HasSubstr("b: outcomes are not a function of the seed: after other seeds, step 3 "
                        "first differs in 'pos'"));
  b_.episodes.pop_back();  // without pairs, the seeds need not agree
  EXPECT_THAT(FindMismatches(a_, b_), IsEmpty());
  b_.manifest = R"({"determinism": {"verified": false}})";
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { WhyUnpaired(a_, b_); }),
              HasSubstr("expected the certificate of an evaluation"));
}

TEST_F(Comparability, WithoutAConfigSaysWhatIsNotKnown) {
  b_.config.clear();
  b_.manifest.clear();
  EXPECT_THAT(FindMismatches(a_, b_), IsEmpty());
  EXPECT_THAT(ComparabilityNotes(a_, b_), ElementsAre(HasSubstr("b has no config.json")));
}

TEST_F(Comparability, RefusesFilesThatAreNotJson) {
  b_.config = "{";
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { FindMismatches(a_, b_); }),
              HasSubstr("b/config.json"));
  b_.config = "[]";
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { FindMismatches(a_, b_); }),
              HasSubstr("b/config.json: expected a JSON object"));
}

}  // namespace
}  // namespace dp_bench::compare
