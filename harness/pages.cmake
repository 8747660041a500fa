# The templates of the pages are compiled in, so that the program needs no data files.
set(pages "${CMAKE_CURRENT_SOURCE_DIR}/src/report")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${pages}/report.css" "${pages}/report.html.mustache" "${pages}/multi_run.html.mustache" "${pages}/data.html.mustache"
  "${pages}/diagnosis.html.mustache" "${pages}/attention.html.mustache" "${pages}/comparison.html.mustache")
file(READ "${pages}/report.css" DPB_REPORT_STYLE)
file(READ "${pages}/report.html.mustache" DPB_REPORT_TEMPLATE)
file(READ "${pages}/multi_run.html.mustache" DPB_MULTI_RUN_TEMPLATE)
file(READ "${pages}/data.html.mustache" DPB_DATA_TEMPLATE)
file(READ "${pages}/diagnosis.html.mustache" DPB_DIAGNOSIS_TEMPLATE)
file(READ "${pages}/attention.html.mustache" DPB_ATTENTION_TEMPLATE)
file(READ "${pages}/comparison.html.mustache" DPB_COMPARISON_TEMPLATE)
configure_file("${pages}/page_templates.cc.in" "${CMAKE_CURRENT_BINARY_DIR}/page_templates.cc" @ONLY)
target_sources(dp_bench_pages PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/page_templates.cc")
