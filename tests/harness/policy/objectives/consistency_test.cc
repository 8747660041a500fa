// Consistency training and distillation: where the targets come from, how plans are sampled, and
// settings that cannot work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "policy/objectives/consistency_objective.h"
#include "policy/objectives/diffusion_objective.h"
#include "support/error_of.h"
#include "support/small_policy.h"

namespace dp_bench::policy {
namespace {

using testing::HasSubstr;
using torch::Tensor;

constexpr std::int64_t kRows = 40;     // enough to see every level
constexpr double kTolerance32 = 1e-5;  // float32 sums of order 1 to 10

Config ParamsOf(const std::string& prediction_type, const std::string& more = "") {
  return Config::FromJson(R"({"noise_scheduler": {"type": "ddim", "num_inference_steps": 5,
                              "prediction_type": ")" +
                              prediction_type + "\"" + more + "}}",
                          "policy.json");
}

NoiseScheduler SchedulerOf(const std::string& prediction_type) {
  return NoiseScheduler(
      NoiseSchedulerConfig::FromConfig(ParamsOf(prediction_type).Sub("noise_scheduler")));
}

// sqrt(alpha_bar) of each row's timestep, [B, 1, 1].
Tensor SignalAt(const Tensor& times) {
  const NoiseScheduler scheduler = SchedulerOf("sample");
  return torch::tensor(scheduler.alphas_cumprod(), torch::kFloat64)
      .index_select(0, times)
      .sqrt()
      .to(torch::kFloat32)
      .view({-1, 1, 1});
}

Tensor NoiseAt(const Tensor& times) { return (1.0 - SignalAt(times).square()).sqrt(); }

Tensor CleanBatch() { return torch::linspace(-0.9, 0.8, kRows * 8 * 2).view({kRows, 8, 2}); }

// A denoiser that knows x_0.
NetworkAnswer Knowing(const Tensor& x_0, const std::string& prediction_type) {
  return [=](const Tensor& x, const Tensor& times) {
    const Tensor epsilon = (x - SignalAt(times) * x_0) / NoiseAt(times);
    if (prediction_type == "epsilon") return epsilon;
    if (prediction_type == "sample") return x_0;
    return SignalAt(times) * epsilon - NoiseAt(times) * x_0;
  };
}

// The output with which a student jumps from x to x_0.
Tensor OutputFor(const Tensor& x, const Tensor& times, const Tensor& x_0,
                 const std::string& prediction_type) {
  const Tensor signal = SignalAt(times);
  const Tensor noise = NoiseAt(times);
  if (prediction_type == "v_prediction") return (signal * x - x_0) / noise;
  // the share of the sequence is 1/4 / (sigma^2 + 1/4)
  const Tensor share = 0.25 / ((noise / signal).square() + 0.25);
  return (x_0 - share / signal * x) / (1.0 - share);
}

TEST(Consistency, TargetsJumpToTheEndOfTheTeachersPath) {
  const Tensor x_0 = CleanBatch();
  for (const std::string teacher_type : {"epsilon", "sample", "v_prediction"}) {
    const DiffusionObjective teacher(ParamsOf(teacher_type));
    for (const std::string type : {"sample", "v_prediction"}) {
      SCOPED_TRACE(teacher_type + " teaches " + type);
      ConsistencyObjective student(ParamsOf(type));
      student.LearnFrom(teacher);
      NoiseSource noise = NoiseOfRows(kRows);
      const auto passes = student.Corrupt(
          {.x_0 = x_0,
           .noise = noise,
           .average = [&](const Tensor& x,
                          const Tensor& times) { return OutputFor(x, times, x_0, type); },
           .teacher = Knowing(x_0, teacher_type)});
      ASSERT_EQ(passes.size(), 1U);
      const TrainingPass& pass = passes[0];
      const Tensor wanted = OutputFor(pass.noisy, pass.times, x_0, type);
      // of the jumps: the output of the lowest level counts little
      const Tensor factor = pass.row_weights.sqrt().view({-1, 1, 1});
      EXPECT_LE(((pass.target - wanted) * factor).abs().max().item<double>(), kTolerance32);
    }
  }
}

// Each row steps from its own level to the next; below the lowest, no network is asked.
TEST(Consistency, TheTeacherTakesOneStepOfDdim) {
  for (const std::string type : {"epsilon", "sample", "v_prediction"}) {
    SCOPED_TRACE(type);
    const DiffusionObjective teacher(ParamsOf(type));
    const std::vector<SamplerStep> steps = SchedulerOf(type).steps();
    ConsistencyObjective student(ParamsOf("sample"));
    student.LearnFrom(teacher);
    const auto answer = [](const Tensor& x, const Tensor& times) {
      return torch::sin(2.0 * x + 0.1 * times.to(torch::kFloat32).view({-1, 1, 1}));
    };
    Tensor stepped;
    NoiseSource noise = NoiseOfRows(kRows);
    const auto passes = student.Corrupt({.x_0 = CleanBatch(),
                                         .noise = noise,
                                         .average =
                                             [&](const Tensor& x, const Tensor&) {
                                               stepped = x;
                                               return torch::zeros_like(x);
                                             },
                                         .teacher = answer});
    const Tensor output = answer(passes[0].noisy, passes[0].times);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto t = passes[0].times[row].item<std::int64_t>();
      const auto step = std::ranges::find(steps, static_cast<double>(t), &SamplerStep::time);
      const Tensor x_0 =
          (output[row] * step->x0_from_output + passes[0].noisy[row] * step->x0_from_sample)
              .clamp(-*step->clip, *step->clip);
      const Tensor expected = x_0 * step->next_from_x0 +
                              passes[0].noisy[row] * step->next_from_sample +
                              output[row] * step->next_from_output;
      EXPECT_LE((stepped[row] - expected).abs().max().item<double>(), kTolerance32) << t;
    }
  }
}

// Song et al. 2023, Alg. 3: both ends of a step have the same noise.
TEST(Consistency, WithoutATeacherTheStepFollowsTheNoise) {
  const Tensor x_0 = CleanBatch();
  const ConsistencyObjective student(ParamsOf("sample"));
  NoiseSource noise = NoiseOfRows(kRows);
  Tensor stepped;
  const auto passes =
      student.Corrupt({.x_0 = x_0, .noise = noise, .average = [&](const Tensor& x, const Tensor&) {
                         stepped = x;
                         return x_0;
                       }});
  const TrainingPass& pass = passes[0];
  std::set<std::int64_t> seen;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto t = pass.times[row].item<std::int64_t>();
    seen.insert(t);
    const Tensor next = t == 0 ? torch::tensor({0}) : torch::tensor({t - 20});
    const Tensor expected =
        t == 0 ? x_0[row] : (SignalAt(next) * x_0[row] + NoiseAt(next) * pass.noise[row])[0];
    EXPECT_LE((stepped[row] - expected).abs().max().item<double>(), kTolerance32) << t;
  }
  EXPECT_THAT(seen, testing::ElementsAre(0, 20, 40, 60, 80));
}

// f(x, t) approaches x where the noise ends, whatever the network answers.
TEST(Consistency, JumpsFromTheLowestLevelAreShort) {
  for (const std::string type : {"sample", "v_prediction"}) {
    const ConsistencyObjective student(ParamsOf(type, R"(, "clip_sample": false)"));
    NoiseSource noise = NoiseOfRows(kRows);
    const auto passes = student.Corrupt(
        {.x_0 = CleanBatch(), .noise = noise, .average = [](const Tensor& x, const Tensor&) {
           return 0.0 * x;
         }});
    for (std::int64_t row = 0; row < kRows; ++row) {
      if (passes[0].times[row].item<std::int64_t>() > 0) continue;
      // what the output counts: b^2, with b^2 of order 1 at the highest level
      EXPECT_LT(passes[0].row_weights[row].item<double>(), 2e-3) << type;
    }
    EXPECT_GT(passes[0].row_weights.max().item<double>(), 0.8) << type;
  }
}

struct Plan {
  Tensor actions;
  std::vector<std::size_t> evaluated;
};

// Samples with a network that knows x_0 and notes what it is asked.
Plan Sample(const ConsistencyObjective& student, const Tensor& x_0, std::uint64_t major) {
  Plan plan;
  NoiseSource noise = NoiseOfRows(kRows, major);
  const SamplingPlan sampling = {.steps = student.steps()};
  const auto draw = [&] { return noise.Randn(StreamId::kPolicyNoise, x_0.sizes()); };
  const auto denoise = [&](const Tensor& x, std::size_t i) {
    plan.evaluated.push_back(i);
    const auto t = static_cast<std::int64_t>(sampling.steps[i].time);
    return 0.9 * OutputFor(x, torch::full({kRows}, t, torch::kInt64), x_0, "v_prediction");
  };
  plan.actions =
      RunSamplingPlan(sampling, draw(), /*condition=*/{}, {.denoise = denoise, .draw_noise = draw});
  return plan;
}

std::vector<double> TimesOf(const ConsistencyObjective& student) {
  std::vector<double> times;
  for (const SamplerStep& step : student.steps()) times.push_back(step.time);
  return times;
}

TEST(Consistency, PlansWithTheEvaluationsThatTheConfigAsksFor) {
  for (const int n : {1, 2, 5}) {
    const Config params = Config::FromJson(
        R"({"noise_scheduler": {"type": "ddim", "num_inference_steps": 5,
            "prediction_type": "v_prediction"}, "consistency": {"num_inference_steps": )" +
        std::to_string(n) + "}}");
    const ConsistencyObjective student(params);
    const std::vector<double> all = {80.0, 60.0, 40.0, 20.0, 0.0};
    EXPECT_EQ(TimesOf(student), n == 5   ? all
                                : n == 2 ? std::vector<double>({80.0, 40.0})
                                         : std::vector<double>({80.0}));
    const Plan plan = Sample(student, CleanBatch(), 1);
    EXPECT_EQ(plan.evaluated.size(), static_cast<std::size_t>(n));
    // noise comes from the streams of the rows alone
    EXPECT_TRUE(torch::equal(plan.actions, Sample(student, CleanBatch(), 1).actions));
    EXPECT_FALSE(torch::equal(plan.actions, Sample(student, CleanBatch(), 2).actions));
  }
}

TEST(Consistency, SettingsThatCannotWorkAreExplained) {
  const auto error_of = [](const char* params) {
    return MessageOf(ErrorCode::kConfig,
                     [&] { ConsistencyObjective(Config::FromJson(params, "policy.json")); });
  };
  EXPECT_THAT(error_of(R"({"noise_scheduler": {"type": "ddpm", "prediction_type": "sample"}})"),
              HasSubstr("noise_scheduler.type: expected ddim with objective consistency"));
  EXPECT_THAT(error_of(R"({"noise_scheduler": {"type": "ddim"}})"),
              HasSubstr("noise_scheduler.prediction_type: expected sample or v_prediction"));
  EXPECT_THAT(error_of(R"({"noise_scheduler": {"type": "ddim", "prediction_type": "sample",
                                               "eta": 0.5}})"),
              HasSubstr("noise_scheduler.eta: expected 0"));
  EXPECT_THAT(error_of(R"({"noise_scheduler": {"type": "ddim", "prediction_type": "sample",
                                               "num_inference_steps": 4},
                           "consistency": {"num_inference_steps": 5}})"),
              HasSubstr("consistency.num_inference_steps: expected at most 4"));
}

TEST(Consistency, OnlyADiffusionWithTheSameNoiseTeaches) {
  ConsistencyObjective student(ParamsOf("sample"));
  EXPECT_THAT(
      MessageOf(
          ErrorCode::kConfig,
          [&] { student.LearnFrom(*MakeObjective(Config::FromJson(R"({"objective": "mip"})"))); }),
      HasSubstr("training.teacher: expected a policy with objective diffusion"));
  const DiffusionObjective other(
      Config::FromJson(R"({"noise_scheduler": {"beta_schedule": "linear"}})"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { student.LearnFrom(other); }),
              HasSubstr("training.teacher: expected the noise schedule of"));
  DiffusionObjective diffusion(ParamsOf("sample"));
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { diffusion.LearnFrom(other); }),
              HasSubstr("only policy.params.objective=consistency learns from a teacher"));
}

}  // namespace
}  // namespace dp_bench::policy
