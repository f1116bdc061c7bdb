// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/exposition.hpp>

#include <gyre/base/detail/utf8.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace gyre::metrics {
namespace {

constexpr std::string_view total_suffix = "_total";

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

// A monitoring system refuses the whole text for one byte that is not UTF-8.
void append_escaped(std::string& output, std::string_view text, bool escapes_quotes) {
  while (!text.empty()) {
    const std::size_t size = gyre::detail::utf8_character_size(text);
    if (size == 0) {
      output += "\xef\xbf\xbd";
    } else if (text[0] == '\n') {
      output += "\\n";
    } else {
      if (text[0] == '\\' || (escapes_quotes && text[0] == '"')) output += '\\';
      output += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
}

std::string text_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}
double to_seconds(std::chrono::nanoseconds length) noexcept {
  return std::chrono::duration<double>(length).count();
}

// Returns a key that is equal for equal sets of labels. The caller has sorted the labels by their
// names. No name contains a separator, and the length of each value precedes it.
std::string label_set_of(std::span<const label> sorted_labels) {
  std::string text;
  for (const label& label : sorted_labels) {
    text.append(label.name).append("=").append(std::to_string(label.value.size())).append(":");
    text.append(label.value);
  }
  return text;
}

[[noreturn]] void refuse(std::string_view reason, std::string_view name) {
  throw std::invalid_argument("gyre::metrics::exposition: " + std::string(reason) + " '" +
                              std::string(name) + "'");
}

}  // namespace

std::string_view exposition::content_type() const noexcept {
  return format_ == exposition_format::text
             ? "text/plain; version=0.0.4; charset=utf-8"
             : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

void exposition::set_common_labels(label_view labels) {
  std::vector<std::string> names;
  std::vector<std::string> values;
  for (const label& label : labels) {
    if (!is_label_name(label.name)) refuse("not a name of a label:", label.name);
    names.emplace_back(label.name);
    values.emplace_back(label.value);
  }
  common_names_ = std::move(names);
  common_values_ = std::move(values);
}

void exposition::add_counter(std::string_view name, std::string_view help, std::uint64_t value,
                             label_view labels) {
  append_counter(name, help, std::to_string(value), labels);
}
void exposition::add_counter(std::string_view name, std::string_view help, duration value,
                             label_view labels) {
  append_counter(name, help, text_of(to_seconds(value)), labels);
}

void exposition::append_counter(std::string_view name, std::string_view help,
                                std::string_view value, label_view labels) {
  std::string_view family_name = name;
  const bool has_suffix = name.ends_with(total_suffix) && name.size() > total_suffix.size();
  if (format_ == exposition_format::open_metrics && has_suffix) {
    family_name.remove_suffix(total_suffix.size());
  }
  sample new_sample;
  family& target = prepare(family_name, help, kind::counter, labels, new_sample.label_set);
  const bool adds_suffix = format_ == exposition_format::open_metrics;
  append_line(new_sample.lines, family_name, adds_suffix ? total_suffix : "", labels, {}, value);
  target.label_sets.insert(new_sample.label_set);
  target.samples.push_back(std::move(new_sample));
}

void exposition::append_gauge(std::string_view name, std::string_view help, double value,
                              label_view labels) {
  sample new_sample;
  family& target = prepare(name, help, kind::gauge, labels, new_sample.label_set);
  append_line(new_sample.lines, name, "", labels, {}, text_of(value));
  target.label_sets.insert(new_sample.label_set);
  target.samples.push_back(std::move(new_sample));
}
void exposition::add_gauge(std::string_view name, std::string_view help, duration value,
                           label_view labels) {
  append_gauge(name, help, to_seconds(value), labels);
}

void exposition::add_summary(std::string_view name, std::string_view help,
                             const histogram& durations, label_view labels) {
  static constexpr std::array quantiles = {0.5, 0.9, 0.99, 0.999};
  sample new_sample;
  family& target = prepare(name, help, kind::summary, labels, new_sample.label_set);
  histogram copy;  // a copy, because other threads may be recording
  copy.merge(durations);
  for (const double level : quantiles) {
    const std::string quantile = text_of(level);
    append_line(new_sample.lines, name, "", labels, {"quantile", quantile},
                text_of(to_seconds(copy.quantile(level))));
  }
  append_line(new_sample.lines, name, "_sum", labels, {}, text_of(to_seconds(copy.sum())));
  append_line(new_sample.lines, name, "_count", labels, {}, std::to_string(copy.count()));
  target.label_sets.insert(new_sample.label_set);
  target.samples.push_back(std::move(new_sample));
}

void exposition::add_histogram(std::string_view name, std::string_view help,
                               const histogram& durations, label_view labels,
                               std::span<const duration> limits) {
  if (std::ranges::adjacent_find(limits, std::ranges::greater_equal()) != limits.end()) {
    refuse("the limits do not rise of the histogram", name);
  }
  histogram copy;  // a copy, because other threads may be recording
  copy.merge(durations);
  std::vector<double> seconds;
  std::vector<std::uint64_t> counts;
  std::uint64_t count_below = 0;
  for (const duration& limit : limits) {
    seconds.push_back(to_seconds(limit));
    const std::uint64_t count = copy.count_within(limit);
    counts.push_back(count - count_below);
    count_below = count;
  }
  counts.push_back(copy.count() - count_below);
  add_bucket_histogram(
      name, help, {.limits = seconds, .counts = counts, .sum = to_seconds(copy.sum())}, labels);
}

void exposition::add_bucket_histogram(std::string_view name, std::string_view help,
                                      const bucket_sample& values, label_view labels) {
  if (values.counts.size() != values.limits.size() + 1) {
    refuse("the counts are not one more than the limits of the histogram", name);
  }
  if (std::ranges::adjacent_find(values.limits, std::ranges::greater_equal()) !=
      values.limits.end()) {
    refuse("the limits do not rise of the histogram", name);
  }
  sample new_sample;
  family& target = prepare(name, help, kind::histogram, labels, new_sample.label_set);
  std::uint64_t cumulative_count = 0;
  for (std::size_t i = 0; i < values.limits.size(); ++i) {
    cumulative_count += values.counts[i];
    append_line(new_sample.lines, name, "_bucket", labels, {"le", limit_text(values.limits[i])},
                std::to_string(cumulative_count));
  }
  cumulative_count += values.counts.back();
  const std::string count = std::to_string(cumulative_count);
  append_line(new_sample.lines, name, "_bucket", labels, {"le", "+Inf"}, count);
  append_line(new_sample.lines, name, "_sum", labels, {}, text_of(values.sum));
  append_line(new_sample.lines, name, "_count", labels, {}, count);
  target.label_sets.insert(new_sample.label_set);
  target.samples.push_back(std::move(new_sample));
}

std::size_t exposition::merge(const exposition& other) {
  if (other.format_ != format_) {
    throw std::invalid_argument("gyre::metrics::exposition: merged with another format");
  }
  std::size_t dropped_count = 0;
  for (const family& source : other.families_) {
    family* own_family = nullptr;
    try {
      own_family = &find_or_add(source.name, source.help, source.type);
    } catch (const std::invalid_argument&) {
      dropped_count += source.samples.size();
      continue;
    }
    for (const sample& new_sample : source.samples) {
      if (own_family->label_sets.insert(new_sample.label_set).second) {
        own_family->samples.push_back(new_sample);
      } else {
        ++dropped_count;
      }
    }
  }
  return dropped_count;
}

std::string exposition::text() const {
  std::string output;
  for (const family& own_family : families_) {
    append_metadata(output, own_family, format_);
    for (const sample& own_sample : own_family.samples) output += own_sample.lines;
  }
  if (format_ == exposition_format::open_metrics) output += "# EOF\n";
  return output;
}

exposition::family& exposition::prepare(std::string_view name, std::string_view help, kind type,
                                        label_view labels, std::string& label_set) {
  if (!is_metric_name(name)) refuse("not a name of a metric:", name);
  std::vector<label> sorted_labels;
  for (std::size_t i = 0; i < common_names_.size(); ++i) {
    sorted_labels.push_back({common_names_[i], common_values_[i]});
  }
  for (const label& label : labels) {
    if (!is_label_name(label.name)) refuse("a label has no valid name in the metric", name);
    sorted_labels.push_back(label);
  }
  std::ranges::sort(sorted_labels, {}, &label::name);
  if (std::ranges::adjacent_find(sorted_labels, {}, &label::name) != sorted_labels.end()) {
    refuse("a label is named twice in the metric", name);
  }
  label_set = label_set_of(sorted_labels);
  family& target = find_or_add(name, help, type);
  if (target.label_sets.contains(label_set)) {
    refuse("a sample with these labels was added before to the metric", name);
  }
  return target;
}

exposition::family& exposition::find_or_add(std::string_view name, std::string_view help,
                                            kind type) {
  if (const auto match = indices_.find(name); match != indices_.end()) {
    family& result = families_[match->second];
    if (result.type != type) refuse("samples of different types have the name", name);
    return result;
  }
  std::vector<std::string> names = {std::string(name)};
  const bool has_parts = type == kind::summary || type == kind::histogram;
  for (const std::string_view suffix : {"_sum", "_count", "_bucket"}) {
    if (has_parts) names.push_back(names.front() + std::string(suffix));
  }
  if (format_ == exposition_format::open_metrics && type == kind::counter) {
    names.push_back(names.front() + std::string(total_suffix));
  }
  for (const std::string& sample_name : names) {
    if (sample_names_.contains(sample_name))
      refuse("another metric has a sample of the name", name);
  }
  const std::size_t index = families_.size();
  family& new_family = families_.emplace_back();
  new_family.name = name;
  new_family.help = help;
  new_family.type = type;
  indices_.emplace(name, index);
  for (std::string& sample_name : names) sample_names_.insert(std::move(sample_name));
  return new_family;
}

void exposition::append_metadata(std::string& output, const family& own_family,
                                 exposition_format format) {
  output.append("# HELP ").append(own_family.name).append(" ");
  append_escaped(output, own_family.help, format == exposition_format::open_metrics);
  output.append("\n# TYPE ").append(own_family.name);
  switch (own_family.type) {
    case kind::counter: output.append(" counter\n"); break;
    case kind::gauge: output.append(" gauge\n"); break;
    case kind::summary: output.append(" summary\n"); break;
    case kind::histogram: output.append(" histogram\n"); break;
  }
}

void exposition::append_line(std::string& output, std::string_view name, std::string_view suffix,
                             label_view labels, label added_label, std::string_view value) const {
  output.append(name).append(suffix);
  char separator = '{';
  const auto append_label = [&](std::string_view label_name, std::string_view content) {
    (output += std::exchange(separator, ',')).append(label_name).append("=\"");
    append_escaped(output, content, true);
    output += '"';
  };
  for (std::size_t i = 0; i < common_names_.size(); ++i) {
    append_label(common_names_[i], common_values_[i]);
  }
  for (const label& label : labels) append_label(label.name, label.value);
  if (!added_label.name.empty()) append_label(added_label.name, added_label.value);
  if (separator == ',') output += '}';
  output.append(" ").append(value) += '\n';
}

// OpenMetrics writes whole limits with a fraction: "1.0".
std::string exposition::limit_text(double limit) const {
  std::string text = text_of(limit);
  const bool is_whole = text.find_first_not_of("-0123456789") == text.npos;
  if (format_ == exposition_format::open_metrics && is_whole) text += ".0";
  return text;
}

}  // namespace gyre::metrics
