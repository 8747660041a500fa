// The report of a diagnosis: summary, hypotheses with their evidence, key findings, points to
// watch, advice and conclusion, as Markdown and as a page with plots. Torch-free.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/log_checks.h"
#include "report/line_plot.h"

namespace dp_bench::diagnose {

/// Numbers behind a hypothesis.
struct EvidenceTable {
  std::string hypothesis;  // "A" to "F", the first part of the findings' ids
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows = {};  // as long as the head
};

/// The results of all checks, and what a report shows besides.
struct Diagnosis {
  Findings findings;
  std::vector<EvidenceTable> tables;
  std::vector<report::LinePlot> plots;
  std::vector<std::string> notes;      // remarkable numbers, each a sentence
  std::optional<LossStatistics> loss;  // with a log
};

/// `title` names what was examined: "unet_hybrid on pusht, runs/a".
std::string ToMarkdown(const Diagnosis& diagnosis, const std::string& title);

/// Writes a self-contained HTML file. Throws Error{kIo}.
void WriteDiagnosisPage(const Diagnosis& diagnosis, const std::string& title,
                        const std::filesystem::path& file);

}  // namespace dp_bench::diagnose
