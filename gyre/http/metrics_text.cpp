// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/metrics_text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace gyre::http {
namespace {

bool is_letter_or_underscore(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

bool is_label_name(std::string_view name) noexcept {
  return !name.empty() && is_letter_or_underscore(name[0]) && !name.starts_with("__") &&
         name != "quantile" && std::ranges::all_of(name, [](char c) {
           return is_letter_or_underscore(c) || is_digit(c);
         });
}
bool is_metric_name(std::string_view name) noexcept {
  return !name.empty() && !is_digit(name[0]) && std::ranges::all_of(name, [](char c) {
    return is_letter_or_underscore(c) || is_digit(c) || c == ':';
  });
}

void append_escaped(std::string& output, std::string_view text, bool escapes_quotes) {
  for (const char c : text) {
    if (c == '\n') {
      output += "\\n";
    } else {
      if (c == '\\' || (escapes_quotes && c == '"')) output += '\\';
      output += c;
    }
  }
}

std::string text_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}
std::string seconds_of(std::chrono::nanoseconds length) {
  return text_of(std::chrono::duration<double>(length).count());
}

}  // namespace

void metrics_text::add_counter(std::string_view name, std::string_view help, std::uint64_t value,
                               std::initializer_list<metric_label> labels) {
  begin(name, help, kind::counter, labels);
  append_sample(name, "", labels, "", std::to_string(value));
}

void metrics_text::append_gauge(std::string_view name, std::string_view help, double value,
                                std::initializer_list<metric_label> labels) {
  begin(name, help, kind::gauge, labels);
  append_sample(name, "", labels, "", text_of(value));
}

void metrics_text::add_summary(std::string_view name, std::string_view help,
                               const histogram& durations,
                               std::initializer_list<metric_label> labels) {
  static constexpr std::array quantiles = {0.5, 0.9, 0.99, 0.999};
  begin(name, help, kind::summary, labels);
  histogram fixed;  // a copy, because other threads may be recording
  fixed.merge(durations);
  const std::uint64_t count = fixed.count();
  for (const double each : quantiles) {
    append_sample(name, "", labels, text_of(each), seconds_of(fixed.quantile(each)));
  }
  const double mean = std::chrono::duration<double>(fixed.mean()).count();
  append_sample(name, "_sum", labels, "", text_of(mean * static_cast<double>(count)));
  append_sample(name, "_count", labels, "", std::to_string(count));
}

http::response metrics_text::response() const {
  return http::response(status::ok, content_type, text_);
}

void metrics_text::begin(std::string_view name, std::string_view help, kind type,
                         std::initializer_list<metric_label> labels) {
  const auto refuse = [&](std::string_view what) {
    throw std::invalid_argument("gyre::http::metrics_text: " + std::string(what) + " '" +
                                std::string(name) + "'");
  };
  if (!is_metric_name(name)) refuse("not a name of a metric:");
  for (const metric_label& label : labels) {
    if (!is_label_name(label.name)) refuse("a label has no valid name in the metric");
  }
  if (!names_.empty() && names_.back() == name) {
    if (last_kind_ != type) refuse("samples of different types have the name");
    return;
  }
  if (std::ranges::find(names_, name) != names_.end()) {
    refuse("another metric stands between the samples of");
  }
  names_.emplace_back(name);
  last_kind_ = type;
  text_.append("# HELP ").append(name).append(" ");
  append_escaped(text_, help, false);
  text_.append("\n# TYPE ").append(name);
  switch (type) {
    case kind::counter: text_.append(" counter\n"); break;
    case kind::gauge: text_.append(" gauge\n"); break;
    case kind::summary: text_.append(" summary\n"); break;
  }
}

void metrics_text::append_sample(std::string_view name, std::string_view suffix,
                                 std::initializer_list<metric_label> labels,
                                 std::string_view quantile, std::string_view value) {
  text_.append(name).append(suffix);
  char separator = '{';
  const auto append_label = [&](std::string_view label, std::string_view content) {
    (text_ += std::exchange(separator, ',')).append(label).append("=\"");
    append_escaped(text_, content, true);
    text_ += '"';
  };
  for (const metric_label& each : labels) append_label(each.name, each.value);
  if (!quantile.empty()) append_label("quantile", quantile);
  if (separator == ',') text_ += '}';
  text_.append(" ").append(value) += '\n';
}

}  // namespace gyre::http
