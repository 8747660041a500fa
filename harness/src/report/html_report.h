// report.html: one self-contained page about a run, made from the files in its folder alone.
#pragma once

#include <cstddef>
#include <filesystem>

namespace dp_bench::report {

struct HtmlReportOptions {
  bool embed_videos = false;                              // inside the page instead of linked
  std::size_t max_embedded_bytes = std::size_t{8} << 20;  // larger videos stay links
};

/// Writes `run_dir`/report.html from episodes.jsonl, eval_log.json, latency.json, denoising.json,
/// perturbations.json, logs.json.txt, config.json, manifest.json and the films with their notes;
/// what is absent is left out. Needs no network and no script.
/// Throws Error{kData} when a file is not what it should be, Error{kIo}.
void WriteHtmlReport(const std::filesystem::path& run_dir, const HtmlReportOptions& options = {});

}  // namespace dp_bench::report
