#include "report/render.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <kainjow/mustache.hpp>
#include <vector>

#include "core/console.h"
#include "dp_bench/error.h"
#include "run/run_folder.h"

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;
using kainjow::mustache::data;

// Stand for characters of a template while it is rendered, so that those of a result differ.
constexpr char kLineEnd = '\x01';
constexpr char kCellEnd = '\x02';

std::string_view TemplateText(std::string_view name) {
  const auto found = Templates().find(name);
  DPB_ASSERT(found != Templates().end());
  return found->second;
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// Whether a line has only the tag of a section, a part or a comment.
bool IsTagAlone(std::string_view line) {
  return line.size() > 5 && line.starts_with("{{") && line.find("}}") == line.size() - 2 &&
         std::string_view("#^/>!").find(line[2]) != std::string_view::npos;
}

// A template with its line ends marked.
std::string Prepared(std::string_view text) {
  std::string prepared;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (IsTagAlone(Trimmed(line))) {
      prepared += Trimmed(line);
    } else {
      prepared += line;
      prepared += kLineEnd;
    }
  }
  return prepared;
}

std::vector<std::string> Split(std::string_view text, char end) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(end);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// Characters of UTF-8, which are one column wide in what is shown here.
std::size_t WidthOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

// Lines of cells, the first with the names of the columns.
struct CellTable {
  explicit CellTable(std::string_view text) : indent(text.find_first_not_of(' ')) {
    for (const std::string& line : Split(text, kLineEnd)) {
      if (!line.empty()) rows.push_back(Split(line.substr(indent), kCellEnd));
      DPB_ASSERT(line.empty() || rows.back().size() == rows[0].size());
    }
    for (std::string& name : rows.at(0)) {
      is_number.push_back(name.starts_with('>'));
      if (is_number.back()) name.erase(0, 1);
      if (name == "-") name.clear();
      has_names = has_names || !name.empty();
    }
  }

  std::size_t indent = 0;  // of the first line
  std::vector<bool> is_number;
  std::vector<std::vector<std::string>> rows;  // the first one names the columns
  bool has_names = false;
};

std::string AsColumns(const CellTable& table) {
  std::vector<std::size_t> widths(table.is_number.size(), 0);
  for (const std::vector<std::string>& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  std::string text;
  for (const std::vector<std::string>& row : table.rows) {
    if (&row == table.rows.data() && !table.has_names) continue;
    std::string line(table.indent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - WidthOf(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (table.is_number[i] ? padding + row[i] : row[i] + padding);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + kLineEnd;
  }
  return text;
}

std::string AsMarkdown(const CellTable& table) {
  std::string text;
  for (const std::vector<std::string>& row : table.rows) {
    text += '|';
    for (const std::string& cell : row) text += cell.empty() ? " |" : fmt::format(" {} |", cell);
    text += kLineEnd;
    if (&row != table.rows.data()) continue;
    for (std::size_t i = 0; i < row.size(); ++i) text += "|---";
    text += std::string("|") + kLineEnd;
  }
  return text;
}

std::string AsHtml(const CellTable& table) {
  std::string html = "<table>";
  for (const std::vector<std::string>& row : table.rows) {
    const bool is_head = &row == table.rows.data();
    if (is_head && !table.has_names) continue;
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char* style = table.is_number[i] && !is_head ? " class=\"number\"" : "";
      html += fmt::format("<{0}{1}>{2}</{0}>", is_head ? "th" : "td", style, row[i]);
    }
    html += std::string("</tr>") + kLineEnd;
  }
  return html + "</table>" + kLineEnd;
}

std::string Formatted(const std::string& value, std::string format) {
  constexpr std::string_view kNumbers = "efgd%GM";
  if (kNumbers.find(format.back()) == std::string_view::npos) {
    return fmt::format(fmt::runtime("{:" + format + "}"), value);
  }
  double number = 0.0;  // strtod would heed the locale, which a plugin may have set
  std::from_chars(value.data(), value.data() + value.size(), number);
  if (format.back() == 'd') {
    return fmt::format(fmt::runtime("{:" + format + "}"), static_cast<std::int64_t>(number));
  }
  for (const auto& [unit, factor] :
       {std::pair('%', 100.0), std::pair('G', 1e-9), std::pair('M', 1.0 / (1 << 20))}) {
    if (format.back() != unit) continue;
    number *= factor;
    format.back() = 'f';
  }
  return fmt::format(fmt::runtime("{:" + format + "}"), number);
}

data ToData(const Json& json) {
  if (json.is_null()) return data(false);
  if (json.is_boolean()) return data(json.get<bool>());
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    return text.empty() ? data(false) : data(core::Printable(text));
  }
  if (json.is_number_float()) return data(fmt::format("{}", json.get<double>()));
  if (json.is_number()) return data(json.dump());
  if (json.is_array()) {
    data list(data::type::list);
    for (const Json& element : json) list.push_back(ToData(element));
    return list;
  }
  data object(data::type::object);
  for (const auto& [key, value] : json.items()) {
    object.set(key, ToData(value));
    if (value.is_array()) object.set("has_" + key, data(!value.empty()));
  }
  return object;
}

// Finds "score:+.3f", "table" and the parts of a template.
class FormattingContext : public kainjow::mustache::context<std::string> {
 public:
  // `name`: of the template.
  FormattingContext(std::string_view name, const data* page)
      : context(page),
        table_(kainjow::mustache::lambda2(
            [name](const std::string& text, const kainjow::mustache::renderer& render) {
              return Table(name, text, render);
            })) {}

  const data* get(const std::string& name) const override {
    if (name == "table") return &table_;
    const std::size_t colon = name.find(':');
    const data* value = context::get(name.substr(0, colon));
    if (colon == std::string::npos || value == nullptr || !value->is_string()) return value;
    return &kept_.emplace_back(Formatted(value->string_value(), name.substr(colon + 1)));
  }

  const data* get_partial(const std::string& name) const override {
    return &kept_.emplace_back(Prepared(TemplateText(name)));
  }

 private:
  static std::string Table(std::string_view name, std::string text,
                           const kainjow::mustache::renderer& render) {
    for (std::size_t at = 0; (at = text.find(" | ", at)) != std::string::npos;) {
      text.replace(at, 3, 1, kCellEnd);
    }
    const CellTable table(render(text));
    if (table.rows.size() < 2) return "";
    if (name.ends_with(".md")) return AsMarkdown(table);
    return name.ends_with(".html") ? AsHtml(table) : AsColumns(table);
  }

  mutable std::deque<data> kept_;  // what `get` returned stays in place
  const data table_;
};

// A number and its "%" stay on one line.
std::string WithoutBreaks(const std::string& html) {
  constexpr std::string_view kNoBreak = "\u00a0";
  std::string result;
  result.reserve(html.size());
  for (std::size_t i = 0; i < html.size(); ++i) {
    const bool is_between = i > 0 && i + 1 < html.size() && html[i] == ' ' && html[i + 1] == '%' &&
                            ((html[i - 1] >= '0' && html[i - 1] <= '9') || html[i - 1] == '>');
    result.append(is_between ? kNoBreak : std::string_view(html).substr(i, 1));
  }
  return result;
}

// Text that Markdown shows unchanged, on one line, in paragraphs and tables. The characters are
// from CommonMark 2.4 (backslash escapes), plus '|', which ends a cell of GitHub's tables.
std::string EscapeMarkdown(const std::string& text) {
  constexpr std::string_view kSpecial = "\\`*_{}[]#|~";
  std::string escaped;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      escaped += EscapeHtml(std::string(1, c));
      continue;
    }
    if (kSpecial.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c == '\n' || c == '\t' ? ' ' : c;
  }
  return escaped;
}

// The characters of names and numbers that LaTeX would take for commands.
std::string EscapeLatex(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("_%&#$").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

std::string Render(std::string_view name, const Json& result) {
  const data shown = ToData(result);
  kainjow::mustache::mustache parsed(Prepared(TemplateText(name)));
  DPB_ASSERT(parsed.is_valid());
  if (name.ends_with(".txt") || name.ends_with(".csv"))
    parsed.set_custom_escape([](const std::string& text) { return text; });
  if (name.ends_with(".md")) parsed.set_custom_escape(EscapeMarkdown);
  if (name.ends_with(".tex")) parsed.set_custom_escape(EscapeLatex);
  FormattingContext context(name, &shown);
  std::string text = parsed.render(context);
  DPB_ASSERT(parsed.is_valid());
  std::ranges::replace(text, kLineEnd, '\n');
  return name.ends_with(".html") ? WithoutBreaks(text) : text;
}

std::string LinkTo(const std::filesystem::path& relative_path) {
  std::string link = "./";
  for (const char c : relative_path.generic_string()) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("/._-=").find(c) != std::string_view::npos;
    link += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return link;
}

std::string LinkBelow(const std::string& relative_path) {
  if (!run::StaysBelow(relative_path)) return "";
  return LinkTo(std::filesystem::path(relative_path).lexically_normal());
}

std::string DataUrl(std::string_view type, std::string_view bytes) {
  std::string base64(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  base64.resize(static_cast<std::size_t>(length));
  return fmt::format("data:{};base64,{}", type, base64);
}

void AppendPlot(const LinePlot& plot, Json* plots) {
  const std::string svg = LinePlotSvg(plot);
  if (svg.empty()) return;
  Json series = Json::array();
  for (const PlotSeries& each : plot.series) {
    series.push_back({{"index", series.size()}, {"label", each.label}});
  }
  plots->push_back({{"name", plot.title},
                    {"series", series},
                    {"has_legend", plot.series.size() > 1},
                    {"svg", svg}});
}

}  // namespace dp_bench::report
