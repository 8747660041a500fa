// The mustache templates of the pages, compiled in, and their style sheet, which they use as
// `style`.
#pragma once

namespace dp_bench::report {

extern const char* const kReportStyle;
extern const char* const kReportTemplate;      // report.html of one run
extern const char* const kMultiRunTemplate;    // report.html of a run over several training seeds
extern const char* const kDataTemplate;        // the page of a dataset
extern const char* const kDiagnosisTemplate;   // the page of a diagnosis
extern const char* const kAttentionTemplate;   // the page of attention maps
extern const char* const kComparisonTemplate;  // the page of a comparison

}  // namespace dp_bench::report
