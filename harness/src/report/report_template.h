// The page of report.html as a mustache template, compiled in from report.html.mustache.
#pragma once

namespace dp_bench {

extern const char* const kReportTemplate;

}  // namespace dp_bench
