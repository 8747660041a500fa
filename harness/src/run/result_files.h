// The files that a verb writes where the user says: --json, --html, --output grid.mp4. What is
// there already is only replaced if it is an earlier result of the same kind.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace dp_bench::run {

/// A kind of result, and text that every file of this kind contains near its beginning.
struct ResultKind {
  std::string_view name;
  std::string_view mark;
};

inline constexpr ResultKind kComparisonJson = {"a comparison of dp_bench compare --json",
                                               "\"comparisons\": ["};
inline constexpr ResultKind kComparisonPage = {"a page of dp_bench compare",
                                               "content=\"dp_bench compare\""};
/// Of its options --published, --real and --allocate.
inline constexpr ResultKind kCompareAnswer = {"an answer of dp_bench compare --json",
                                              "\"format\": \"dp_bench.compare."};
inline constexpr ResultKind kGateJson = {"a result of dp_bench gate --json",
                                         "\"format\": \"dp_bench.gate."};
inline constexpr ResultKind kGatePlanJson = {"a result of dp_bench gate --plan --json",
                                             "\"format\": \"dp_bench.gate_plan."};
inline constexpr ResultKind kGateJUnit = {"a result of dp_bench gate --junit",
                                          "<testsuite name=\"dp_bench gate\""};
inline constexpr ResultKind kGateMarkdown = {"a comment of dp_bench gate --markdown",
                                             "### Success rate: "};
inline constexpr ResultKind kBaselineFile = {"a baseline of dp_bench gate",
                                             "\"format\": \"dp_bench.baseline."};
inline constexpr ResultKind kDiagnosisPage = {"a page of dp_bench diagnose",
                                              "content=\"dp_bench diagnose\""};
inline constexpr ResultKind kDiagnosisMarkdown = {"a report of dp_bench diagnose --markdown",
                                                  "# Diagnosis: "};
inline constexpr ResultKind kInspectionPage = {"a page of dp_bench inspect",
                                               "content=\"dp_bench inspect\""};
inline constexpr ResultKind kMergePage = {"a page of dp_bench merge", "content=\"dp_bench merge\""};
inline constexpr ResultKind kPredictionJson = {"a prediction of --dry-run --json",
                                               "\"peak_memory_bytes\": "};
inline constexpr ResultKind kCorrectionHead = {"a head of dp_bench correct", "\"input.mean\""};
inline constexpr ResultKind kProfileJson = {"a result of dp_bench profile --json", "\"counted\": "};
inline constexpr ResultKind kBenchJson = {"a result of dp_bench bench --json",
                                          "\"format\": \"dp_bench.bench."};
inline constexpr ResultKind kTraceFile = {"a trace of dp_bench profile", "\"traceEvents\":["};
inline constexpr ResultKind kMp4File = {"a video", "ftyp"};
inline constexpr ResultKind kGifFile = {"a GIF", "GIF8"};
inline constexpr ResultKind kPngFile = {"a PNG image", "\x89PNG"};

struct ResultFile {
  std::string_view option;     // "--json"
  std::filesystem::path path;  // empty: not asked for; "-": standard output
  ResultKind kind;
};

/// Call it before the work begins. Throws Error{kUsage} or Error{kIo} if a file cannot be written,
/// belongs to a run, or is something other than its kind, and if two are the same. If one is
/// standard output, the other results go to standard error.
void RequireResultFiles(const std::vector<ResultFile>& files);

}  // namespace dp_bench::run
