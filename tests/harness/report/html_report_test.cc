// report.html from the files of a run folder: what it shows and leaves out, and that no file
// content becomes markup.
#include "report/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/atomic_file.h"
#include "media/video_encoder.h"
#include "run/video_notes.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::report {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class HtmlReportTest : public testing::Test {
 protected:
  HtmlReportTest() { fs::create_directories(dir_ / "media"); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }

  std::string Report() const {
    WriteHtmlReport(run::ReadRunFolder(dir_));
    return core::ReadTextFile(dir_ / "report.html", std::size_t{1} << 20);
  }

  std::string ErrorOfReport() const {
    return MessageOf(ErrorCode::kData, [this] { Report(); });
  }

  ScratchFolder scratch_;
  const fs::path& dir_ = scratch_.path();
};

constexpr const char* kEpisodes =
    R"({"episode":0,"split":"train","seed":0,"score":0.25,"success":false,"n_steps":300,"trace_hash":"aa","failure_reason":null,"video":null}
{"episode":1,"split":"test","seed":100000,"score":1.0,"success":true,"n_steps":120,"trace_hash":"bb","failure_reason":null,"video":"media/test_100000.mp4"}
{"episode":2,"split":"test","seed":100001,"score":0.5,"success":false,"n_steps":300,"trace_hash":"cc","failure_reason":null,"video":null}
{"episode":3,"split":"test","seed":100002,"score":0.0,"success":false,"n_steps":7,"trace_hash":"dd","failure_reason":"it <broke> & \"fell\"","video":null}
)";

TEST_F(HtmlReportTest, SaysWhichSeedsReportAndWhichChose) {
  Write("episodes.jsonl", kEpisodes);
  const auto with_selection_from = [this](int first) {
    Write("manifest.json", R"({"seeds": {"report": {"first": 100000, "n": 3}, "selection": )"
                           R"({"first": )" +
                               std::to_string(first) + R"(, "n": 3}}})");
    return Report();
  };
  EXPECT_THAT(with_selection_from(200000),
              AllOf(HasSubstr("evaluated on others, 200000 to 200002"), Not(HasSubstr("WARNING"))));
  EXPECT_THAT(with_selection_from(100002), HasSubstr("WARNING: 1 of the 3 test seeds"));
  Write("manifest.json", R"({"seeds": {"report": {"first": 100000, "n": 3}, "selection": )"
                         R"({"first": 0, "n": 0}, "demonstrations": [{"first": 7, "n": 99999}]}})");
  EXPECT_THAT(Report(), AllOf(HasSubstr("WARNING: 3 of the 3 test seeds are seeds of episodes in"),
                              HasSubstr("color:var(--bad)\">Test seeds")));
}

TEST_F(HtmlReportTest, ShowsRateIntervalCountsScoreSeedsAndFailures) {
  Write("episodes.jsonl", kEpisodes);
  Write("eval_log.json", R"({"test/mean_score": 0.5, "test/sim_max_reward_100000": 1.0})");
  Write("config.json", R"({"policy": {"plugin": "unet_hybrid"}, "env": {"plugin": "pusht"}})");
  Write("manifest.json", R"({"dp_bench": "0.1.0"})");
  const std::string html = Report();
  EXPECT_THAT(html, HasSubstr("unet_hybrid on pusht"));
  EXPECT_THAT(html, HasSubstr("1 of 3 episodes succeeded"));
  EXPECT_THAT(html, HasSubstr("6.1 to 79.2\u00a0%"));
  EXPECT_THAT(html, HasSubstr(">0.500<"));
  EXPECT_THAT(html, HasSubstr("1 failed"));
  EXPECT_THAT(html, HasSubstr("train seeds: success rate 0.0\u00a0% (0 of 1"));
  EXPECT_THAT(html, HasSubstr("100002"));
  EXPECT_THAT(html, HasSubstr("it &lt;broke&gt; &amp; &quot;fell&quot;"));
  EXPECT_THAT(html, HasSubstr("src=\"./media/test_100000.mp4\""));
  EXPECT_THAT(html, HasSubstr("<td>test/mean_score</td>"));
  EXPECT_THAT(html, Not(HasSubstr("sim_max_reward")));
  EXPECT_THAT(html, HasSubstr("&quot;dp_bench&quot;: &quot;0.1.0&quot;"));
}

TEST_F(HtmlReportTest, NamesTheTaskOfAnEnvWithSeveral) {
  Write("episodes.jsonl", kEpisodes);
  Write("config.json", R"({"policy": {"plugin": "transformer"},
    "env": {"plugin": "kuavo_dualarm", "params": {"task": "pick_place"}}})");
  EXPECT_THAT(Report(), HasSubstr("transformer on kuavo_dualarm, pick_place"));
}

TEST_F(HtmlReportTest, IsNamedAfterItsFolderAndTheConfigsOwnName) {
  Write("episodes.jsonl", kEpisodes);
  Write("config.json", R"({"policy": {"plugin": "transformer"}, "name": "my_task",
    "env": {"plugin": "gymnasium"}})");
  EXPECT_THAT(Report(), AllOf(HasSubstr("<h1>transformer on my_task</h1>"),
                              HasSubstr("<title>" + dir_.filename().string() + " · ")));
}

TEST_F(HtmlReportTest, UnsolvedSeedsAndPenaltiesHaveColoursOfTheirOwn) {
  Write(
      "episodes.jsonl",
      R"({"episode":0,"split":"test","seed":1,"score":-30.0,"success":false,"n_steps":9,"trace_hash":"a","failure_reason":null,"video":null}
{"episode":1,"split":"test","seed":2,"score":-3.0,"success":true,"n_steps":9,"trace_hash":"b","failure_reason":null,"video":null}
)");
  const std::string html = Report();
  EXPECT_THAT(html, HasSubstr("score -30<"));
  EXPECT_THAT(html,
              HasSubstr(R"x(class="seed unsolved" style="background:rgba(37,99,235,0.08)")x"));
  EXPECT_THAT(html,
              HasSubstr(R"x(class="seed success deep" style="background:rgba(37,99,235,0.77)")x"));
}

TEST_F(HtmlReportTest, AVideoHasAPoster) {
  Write("episodes.jsonl", kEpisodes);
  {
    media::VideoEncoder video(dir_ / "media/test_100000.mp4",
                              {.width = 640, .height = 480, .fps = 10.0});
    video.Write(RgbImage(640, 480));
    video.Finish();
  }
  EXPECT_THAT(Report(), HasSubstr(R"(poster="data:image/png;base64,)"));
}

TEST_F(HtmlReportTest, NeedsNoNetworkAndNoScript) {
  Write("episodes.jsonl", kEpisodes);
  EXPECT_THAT(Report(), AllOf(Not(HasSubstr("http")), Not(HasSubstr("<script")),
                              Not(HasSubstr("{{")), Not(HasSubstr("}}"))));
}

TEST_F(HtmlReportTest, DrawsTheCurvesOfTheLogAndSkipsALineThatWasCutOff) {
  Write("logs.json.txt",
        "{\"train_loss\": 0.9, \"global_step\": 0, \"epoch\": 0}\n"
        "{\"train_loss\": 0.5, \"val_loss\": 0.6, \"test/mean_score\": 0.4, \"epoch\": 0}\n"
        "{\"train_loss\": 0.3, \"epoch\": 1}\n"
        "{\"train_lo");
  const std::string html = Report();
  EXPECT_THAT(html, HasSubstr("epoch 0: 0.5"));
  EXPECT_THAT(html, Not(HasSubstr("epoch 0: 0.9")));  // the epoch's mean comes last
  EXPECT_THAT(html, AllOf(HasSubstr("val_loss"), HasSubstr("test/mean_score")));
  EXPECT_THAT(html, Not(HasSubstr("train_action_mse_error")));
  EXPECT_THAT(html, HasSubstr("lines of the log that cannot be read and are skipped: 1"));
  EXPECT_THAT(html, HasSubstr("no evaluated episodes yet"));
}

TEST_F(HtmlReportTest, AnEmptyRunFolderGivesAPageThatSaysSo) {
  EXPECT_THAT(Report(), AllOf(HasSubstr("no evaluated episodes yet"),
                              Not(HasSubstr("Learning curves")), Not(HasSubstr("Videos"))));
}

TEST_F(HtmlReportTest, SaysWhyAVideoIsMissing) {
  Write(
      "episodes.jsonl",
      R"({"episode":0,"split":"test","seed":5,"score":1,"success":true,"n_steps":1,"video":null,"video_error":"disk full"})");
  EXPECT_THAT(Report(), HasSubstr("test seed 5: no video: disk full"));
}

TEST_F(HtmlReportTest, NothingFromAFileBecomesMarkupOrLeavesTheFolder) {
  const auto row = [](const std::string& video) {
    return R"({"episode":0,"split":"test","seed":1,"score":1,"success":true,"n_steps":1,"video":")" +
           video + "\",\"trace_hash\":\"<i>\"}\n";
  };
  Write("episodes.jsonl", row("../../secret.mp4") + row("/etc/passwd") +
                              row("javascript:alert(1)") + row("a'b c<d>.mp4"));
  Write("config.json", "<script>alert(1)</script>");
  Write("eval_log.json", R"({"<b>": "</table>"})");
  const std::string html = Report();
  EXPECT_THAT(html, AllOf(Not(HasSubstr("secret")), Not(HasSubstr("/etc/passwd")),
                          Not(HasSubstr("\"javascript:")), Not(HasSubstr("<script")),
                          Not(HasSubstr("<i>\"")), Not(HasSubstr("<td><b>"))));
  EXPECT_THAT(html, HasSubstr("./a%27b%20c%3Cd%3E.mp4"));
}

TEST_F(HtmlReportTest, ShowsWhatPerturbationsChanged) {
  Write("episodes.jsonl", kEpisodes);
  EXPECT_THAT(Report(), Not(HasSubstr("<h2>Perturbations</h2>")));
  Write("perturbations.json", R"({"control": {"success_rate": 0.5, "n_success": 1, "n_episodes": 2,
    "mean_score": 0.75}, "arms": [{"name": "delay=3", "folder": "perturbations/delay=3",
    "success_rate": 0.0, "n_success": 0, "n_episodes": 2, "mean_score": 0.25, "n_changed": 2,
    "n_failed": 1, "n_policy_faults": 1, "note": "a <note>", "success_rate_effect": {"difference": -0.5, "low": -0.9, "high": 0.1},
    "score_effect": {"difference": -0.5, "low": null, "high": null}}]})");
  EXPECT_THAT(
      Report(),
      AllOf(HasSubstr("<h2>Perturbations</h2>"), HasSubstr("50.0\u00a0% (1 of 2)"),
            HasSubstr("href=\"./perturbations/delay=3/report.html\">delay=3, 0.0\u00a0% without "
                      "1 policy fault</a>"),
            HasSubstr("-0.500 (-0.900 to +0.100)"), HasSubstr("-0.500 (open to open)"),
            HasSubstr("a &lt;note&gt;")));
  Write("perturbations.json", "{}");
  EXPECT_THAT(ErrorOfReport(), HasSubstr("perturbations.json"));
}

TEST_F(HtmlReportTest, ShowsLatencyAndTheBatchSizeItWasMeasuredAt) {
  EXPECT_THAT(Report(), Not(HasSubstr("<h2>Latency</h2>")));
  Write("latency.json", R"({"control_hz": 10.0, "deadline_ms": 100.0, "rollouts": null, "batch_1":
    {"batch_size": 1, "observations": "of the rollouts", "share_late": 0.125,
     "chunk": {"n": 48, "p50_ms": 7.5, "p95_ms": 9.0, "p99_ms": 12.0, "max_ms": 130.0},
     "stages": {"denoising <step>": {"n": 480, "p50_ms": 0.5, "p95_ms": 0.6, "p99_ms": 0.7,
     "max_ms": 0.8}}}})");
  EXPECT_THAT(Report(), AllOf(HasSubstr("<h2>Latency</h2>"), HasSubstr("batch 1, as on a robot"),
                              HasSubstr("12.5\u00a0% of the chunks took longer than 100 ms"),
                              HasSubstr("130.00"), HasSubstr("denoising &lt;step&gt;"),
                              Not(HasSubstr("padded to batch"))));
  Write("latency.json", "{}");
  EXPECT_THAT(ErrorOfReport(), HasSubstr("latency.json"));
}

TEST_F(HtmlReportTest, ShowsHowEpisodesFailedWithTheirVideos) {
  const std::string course =
      R"(,"course":{"first_reward":0,"last_reward":0,"best_step":40,"lost_step":60,)"
      R"("is_terminated":false,"unseen_step":5,"unseen_key":"<key>"}})";
  const std::string row = R"(,"split":"test","score":0.5,"success":false,"n_steps":300)";
  Write("episodes.jsonl", R"({"episode":0,"seed":7,"video":"media/a'b.mp4")" + row + course + "\n" +
                              R"({"episode":1,"seed":8,"video":null)" + row + course + "\n");
  const std::string html = Report();
  EXPECT_THAT(html, AllOf(HasSubstr("how episodes failed"), HasSubstr("diverged"),
                          HasSubstr("observation &lt;key&gt; left the range of the training data "
                                    "at step 5 (median) in 2 of 2"),
                          HasSubstr("<a href=\"./media/a%27b.mp4\">7 ▶</a>")));
  EXPECT_THAT(html, HasSubstr("dp_bench replay --run " + dir_.string() + " --episode 1\n"));
  EXPECT_THAT(html, Not(HasSubstr("--episode 0\n")));
  Write("episodes.jsonl",
        R"({"episode":0,"split":"test","seed":5,"score":1,"success":true,"n_steps":1})");
  EXPECT_THAT(Report(), Not(HasSubstr("how episodes failed")));
}

TEST_F(HtmlReportTest, TellsWhatAReaderNeedsToTrustAndRepeatIt) {
  const std::string row = R"(,"split":"test","score":0.5,"n_steps":300,"course":{"first_reward":0,)"
                          R"("last_reward":0,"best_step":40,"is_terminated":true,"first_obs":"a"},)"
                          R"("jerk_at_seams":2.5,"jerk_elsewhere":0.125})";
  Write("episodes.jsonl", R"({"episode":0,"seed":7,"success":false,"video":"media/test_7.mp4")" +
                              row + "\n" + R"({"episode":1,"seed":8,"success":true,"video":null)" +
                              row + "\n");
  Write("config.json", R"({"env": {"plugin": "pusht", "params": {"success_threshold": 0.9}}})");
  EXPECT_THAT(Report(),
              AllOf(HasSubstr("2 test seeds from 7 on"), HasSubstr("was not checked"),
                    HasSubstr("<code>success_threshold = 0.9</code>"), HasSubstr("1 ended early: "),
                    HasSubstr("<a href=\"#test_7\">seed 7 ▶</a>"), HasSubstr("id=\"test_7\""),
                    HasSubstr("1 different first observations in 2"),
                    HasSubstr("Seeds with the same one: 7, 8."),
                    HasSubstr("2.5 where action chunks follow one another and 0.125 elsewhere")));
  // rows of an older version
  Write("episodes.jsonl",
        R"({"episode":0,"split":"test","seed":5,"score":1,"success":true,"n_steps":1})");
  fs::remove(dir_ / "config.json");
  EXPECT_THAT(Report(), AllOf(HasSubstr("<th>equal starts</th><td>not recorded"),
                              HasSubstr("<th>smoothness</th><td>not recorded"),
                              HasSubstr("Params of the env: not recorded"),
                              HasSubstr("<th>failures</th><td>none")));
}

TEST_F(HtmlReportTest, AFolderNameCannotAddToTheCommand) {
  const fs::path hostile = dir_ / "it's; <rm> -rf";
  fs::create_directories(hostile);
  std::ofstream(hostile / "episodes.jsonl")
      << R"({"episode":3,"split":"test","seed":5,"score":0,"success":false,"n_steps":1})";
  WriteHtmlReport(run::ReadRunFolder(hostile));
  EXPECT_THAT(core::ReadTextFile(hostile / "report.html", std::size_t{1} << 20),
              HasSubstr("/it&apos;\\&apos;&apos;s; &lt;rm&gt; -rf&apos; --episode 3"));
}

TEST_F(HtmlReportTest, ShowsBesideAVideoWhatWasPlannedInIt) {
  Write("episodes.jsonl", kEpisodes);
  Write("media/test_100000.mp4", "video bytes");
  const std::string without = Report();
  EXPECT_THAT(without,
              AllOf(Not(HasSubstr("class=\"plane\"")), Not(HasSubstr("Tick marks on the axis"))));
  run::VideoNotes notes = {.n_action_steps = 1,
                           .action_dim = 1,
                           .n_marks = 1,
                           .plan_step = {0},
                           .plan = {0.5F},
                           .plan_marks = {0.5F, 0.5F},
                           .state_marks = {0.0F, 0.0F, 0.25F, 0.25F},
                           .reward = {1.0},
                           .success = {1}};
  const fs::path file = dir_ / "media" / "test_100000.safetensors";
  run::WriteVideoNotes(file, notes);
  Write("config.json", R"({"env_runner": {"video_size": [320, 240]}})");
  EXPECT_THAT(Report(), AllOf(HasSubstr("class=\"plane\" viewBox=\"-40 -30 580 435\""),
                              HasSubstr("aria-label=\"Reward\""), HasSubstr("success at step 1"),
                              Not(HasSubstr("Planned action"))));
  notes.n_marks = 0;
  run::WriteVideoNotes(file, notes);
  EXPECT_THAT(Report(),
              AllOf(Not(HasSubstr("class=\"plane\"")), HasSubstr("aria-label=\"Planned action\"")));
  Write("media/test_100000.safetensors", "no tensors");
  EXPECT_THAT(ErrorOfReport(), HasSubstr("test_100000.safetensors"));
}

TEST_F(HtmlReportTest, ABrokenRowNamesFileAndLine) {
  Write("episodes.jsonl", std::string(kEpisodes) + "{\"episode\": 4}\n");
  EXPECT_THAT(ErrorOfReport(), HasSubstr("episodes.jsonl:5: not an episode's row"));
  fs::remove(dir_ / "episodes.jsonl");
  Write("eval_log.json", "{");
  EXPECT_THAT(ErrorOfReport(), HasSubstr("eval_log.json: "));
}

}  // namespace
}  // namespace dp_bench::report
