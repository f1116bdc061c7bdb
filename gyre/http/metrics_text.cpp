// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/metrics_text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gyre::http {
namespace {

bool is_letter_or_underscore(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

bool is_label_name(std::string_view name) noexcept {
  return !name.empty() && is_letter_or_underscore(name[0]) && !name.starts_with("__") &&
         name != "quantile" && name != "le" && std::ranges::all_of(name, [](char c) {
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

// Returns a text that equal sets of labels share, which are sorted by their names. The separators
// occur in no name, and a length precedes each value.
std::string label_set_of(std::span<const metric_label> sorted_labels) {
  std::string text;
  for (const metric_label& each : sorted_labels) {
    text.append(each.name).append("=").append(std::to_string(each.value.size())).append(":");
    text.append(each.value);
  }
  return text;
}

}  // namespace

void metrics_text::add_counter(std::string_view name, std::string_view help, std::uint64_t value,
                               std::initializer_list<metric_label> labels) {
  begin(name, help, kind::counter, labels);
  append_sample(name, "", labels, {}, std::to_string(value));
}

void metrics_text::append_gauge(std::string_view name, std::string_view help, double value,
                                std::initializer_list<metric_label> labels) {
  begin(name, help, kind::gauge, labels);
  append_sample(name, "", labels, {}, text_of(value));
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
    const std::string quantile = text_of(each);
    append_sample(name, "", labels, {"quantile", quantile}, seconds_of(fixed.quantile(each)));
  }
  append_sample(name, "_sum", labels, {}, seconds_of(fixed.sum()));
  append_sample(name, "_count", labels, {}, std::to_string(count));
}

void metrics_text::add_histogram(std::string_view name, std::string_view help,
                                 const histogram& durations,
                                 std::initializer_list<metric_label> labels,
                                 std::span<const duration> limits) {
  if (std::ranges::adjacent_find(limits, std::ranges::greater_equal()) != limits.end()) {
    throw std::invalid_argument("gyre::http::metrics_text: the limits of the histogram '" +
                                std::string(name) + "' do not rise");
  }
  begin(name, help, kind::histogram, labels);
  histogram fixed;  // a copy, because other threads may be recording
  fixed.merge(durations);
  const std::string count = std::to_string(fixed.count());
  for (const duration& each : limits) {
    append_sample(name, "_bucket", labels, {"le", seconds_of(each)},
                  std::to_string(fixed.count_within(each)));
  }
  append_sample(name, "_bucket", labels, {"le", "+Inf"}, count);
  append_sample(name, "_sum", labels, {}, seconds_of(fixed.sum()));
  append_sample(name, "_count", labels, {}, count);
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
  std::vector<metric_label> sorted_labels(labels);
  std::ranges::sort(sorted_labels, {}, &metric_label::name);
  if (std::ranges::adjacent_find(sorted_labels, {}, &metric_label::name) != sorted_labels.end()) {
    refuse("a label is named twice in the metric");
  }
  std::string label_set = label_set_of(sorted_labels);
  if (last_name_ == name) {
    if (last_kind_ != type) refuse("samples of different types have the name");
    if (!last_label_sets_.insert(std::move(label_set)).second) {
      refuse("a sample with these labels was added before to the metric");
    }
    return;
  }
  std::vector<std::string> sample_names = {std::string(name)};
  const bool has_parts = type == kind::summary || type == kind::histogram;
  for (const std::string_view suffix : {"_sum", "_count", "_bucket"}) {
    if (has_parts) sample_names.push_back(sample_names.front() + std::string(suffix));
  }
  for (const std::string& each : sample_names) {
    if (std::ranges::find(names_, each) != names_.end()) {
      refuse("another metric stands between the samples of, or has a sample of the name");
    }
  }
  std::ranges::move(sample_names, std::back_inserter(names_));
  last_name_ = name;
  last_label_sets_ = {std::move(label_set)};
  last_kind_ = type;
  text_.append("# HELP ").append(name).append(" ");
  append_escaped(text_, help, false);
  text_.append("\n# TYPE ").append(name);
  switch (type) {
    case kind::counter: text_.append(" counter\n"); break;
    case kind::gauge: text_.append(" gauge\n"); break;
    case kind::summary: text_.append(" summary\n"); break;
    case kind::histogram: text_.append(" histogram\n"); break;
  }
}

void metrics_text::append_sample(std::string_view name, std::string_view suffix,
                                 std::initializer_list<metric_label> labels,
                                 metric_label added_label, std::string_view value) {
  text_.append(name).append(suffix);
  char separator = '{';
  const auto append_label = [&](std::string_view label, std::string_view content) {
    (text_ += std::exchange(separator, ',')).append(label).append("=\"");
    append_escaped(text_, content, true);
    text_ += '"';
  };
  for (const metric_label& each : labels) append_label(each.name, each.value);
  if (!added_label.name.empty()) append_label(added_label.name, added_label.value);
  if (separator == ',') text_ += '}';
  text_.append(" ").append(value) += '\n';
}

}  // namespace gyre::http
