// The page of a comparison as a mustache template, compiled in; its style sheet is that of all
// reports.
#pragma once

namespace dp_bench {

extern const char* const kComparisonTemplate;

}  // namespace dp_bench
